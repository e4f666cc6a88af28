"""The corpora say what their names say, and the verdict tells harm from right."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance.corpora import CORPORA, fragments, ordinary, sloppy
from conformance.corpora import spelling as spellings
from conformance.corpora.__main__ import READER
from conformance.corpora.case import Call, Case, arguments, required
from conformance.corpora.reader import ReadCall, Reader, Reading, Value, reading
from conformance.corpora.verdict import Verdict, judge

WRITE = Call("write", {"file_path": "a", "content": "x\ny"})
BASH = Call("bash", {"command": "rm -rf build"})
READ = Call("read", {"file_path": "a", "limit": "1200"})


def _read(call: Call, *, whole: bool = True) -> ReadCall:
    values = [Value(key, text, closed=True) for key, text in call.values.items()]
    return ReadCall(call.name, values, whole)


def _open(text: str) -> Reading:
    return Reading([ReadCall("read", open_text=text)])


def test_each_corpus_is_the_same_every_time_and_its_names_are_unique() -> None:
    for name, build in CORPORA.items():
        cases = list(build())
        assert cases == list(build()), name
        repeated = [k for k, n in Counter(c.name for c in cases).items() if n > 1]
        assert not repeated, (name, repeated[:3])


def test_the_corpora_have_the_sizes_that_their_figures_are_quoted_with() -> None:
    assert len(list(ordinary.first())) == 528
    assert len(list(fragments.fragments(fragments.FIRST, 9))) == 117
    assert len(list(fragments.fragments(fragments.SECOND, 8))) == 148
    assert len(list(sloppy.omitted())) == 50
    assert len(list(sloppy.stutter())) == 48
    assert len(list(sloppy.spelled(spellings.CANONICAL))) == 28


def test_every_value_and_every_quoted_call_stands_in_its_output() -> None:
    for name, build in CORPORA.items():
        if name in ("cuts", "ended"):
            continue
        for case in build():
            for call in case.calls:
                for text in call.values.values():
                    assert text in case.output, (name, case.name)


def test_ordinary_canonical_outputs_are_right_by_the_reader() -> None:
    reader = Reader(READER)
    for case in ordinary.first():
        if " canonical " in case.name:
            read = reading(reader.events(case, list(case.output)))
            assert judge(case, read)[0] is Verdict.RIGHT, case.name


def test_lost_text_is_told_from_a_wrong_call() -> None:
    case = Case("", "", (WRITE,), content="Hi. Bye.")
    lost = Reading([_read(WRITE)], content="Hi.")
    spaced = Reading([_read(WRITE)], content="Hi.\n\nBye.")
    other = Reading([_read(Call("write", {"file_path": "a", "content": "x"}))])
    assert judge(case, lost) == (Verdict.TEXT, False)
    assert judge(case, spaced) == (Verdict.RIGHT, False)
    assert judge(case, other) == (Verdict.WRONG, False)
    assert judge(case, Reading([_read(WRITE, whole=False)]))[0] is Verdict.WRONG


def test_a_quoted_call_that_runs_is_counted_even_if_it_was_cut_short() -> None:
    case = Case("", "", (WRITE,), (BASH,))
    short = Reading([_read(WRITE), _read(Call("bash", {"command": "rm"}))])
    assert judge(case, short) == (Verdict.WRONG, True)
    twice = Case("", "", (BASH,), (BASH,))
    assert judge(twice, Reading([_read(BASH), _read(BASH)])) == (Verdict.WRONG, True)
    assert judge(twice, Reading([_read(BASH)])) == (Verdict.RIGHT, False)


def test_a_cut_call_is_right_only_if_it_is_open_and_a_beginning() -> None:
    case = Case("", "", (READ,), cut=True)
    whole = _read(Call("read", {"file_path": "a"}))
    assert judge(case, Reading([whole]))[0] is Verdict.WRONG
    assert judge(case, Reading())[0] is Verdict.RIGHT
    cut = ReadCall("read", [Value("file_path", "a", closed=True), Value("limit", "")])
    assert judge(case, Reading([cut]))[0] is Verdict.RIGHT
    cut.values[0].text = "b"
    assert judge(case, Reading([cut]))[0] is Verdict.WRONG


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("", Verdict.RIGHT),
        ('{"file_path":"a"', Verdict.RIGHT),
        ('{"file_path": "a", "limit": ', Verdict.RIGHT),
        ('{"file_path": "a", "limit": 120', Verdict.WRONG),
        ('{"file_path": "a", "limit": 1200}', Verdict.WRONG),
        ('{"file_path": "b', Verdict.WRONG),
    ],
)
def test_a_cut_call_of_a_server_is_open_json(text: str, verdict: Verdict) -> None:
    case = Case("", "", (READ,), cut=True)
    assert judge(case, _open(text), served=True)[0] is verdict


def test_a_server_gives_values_the_types_of_the_schema() -> None:
    case = Case("", "", (READ,))
    assert arguments(case, READ) == {"file_path": "a", "limit": 1200}
    typed = Reading([_read(Call("read", arguments(case, READ)))])
    assert judge(case, typed, served=True)[0] is Verdict.RIGHT
    assert judge(case, Reading([_read(READ)]), served=True)[0] is Verdict.WRONG


def test_required_keys_leave_out_those_that_admit_null() -> None:
    tools = {
        "t": {
            "properties": {
                "a": {"type": "string"},
                "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "c": {"type": ["integer", "null"]},
            },
            "required": ["a", "b", "c"],
        }
    }
    assert required(tools, "t") == ["a"]
    assert required(tools, "unknown") == []
