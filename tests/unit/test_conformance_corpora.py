"""The corpora say what their names say, and the verdict tells harm from right."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance.corpora import CORPORA, fragments, ordinary, sloppy
from conformance.corpora import spelling as spellings
from conformance.corpora.case import Call, Case, arguments, required
from conformance.corpora.reader import ReadCall, Reading, Value
from conformance.corpora.verdict import Verdict, judge

WRITE = Call("write", {"file_path": "a", "content": "x\ny"})
BASH = Call("bash", {"command": "rm -rf build"})
READ = Call("read", {"file_path": "a", "limit": "1200"})


def _read(call: Call, *, whole: bool = True) -> ReadCall:
    values = [Value(key, text, closed=True) for key, text in call.values.items()]
    return ReadCall(call.name, values, whole)


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


ONE = Case("", "", (WRITE,), content="Hi. Bye.")
QUOTED = Case("", "", (WRITE,), (BASH,))
TWICE = Case("", "", (BASH,), (BASH,))
CUT = Case("", "", (READ,), cut=True)


def _cut(path: str) -> ReadCall:
    return ReadCall("read", [Value("file_path", path, closed=True), Value("limit", "")])


@pytest.mark.parametrize(
    ("case", "calls", "verdict", "ran"),
    [
        (ONE, [Call("write", {"file_path": "a", "content": "x"})], "WRONG", False),
        # A quoted call that runs is counted even if it was cut short.
        (QUOTED, [WRITE, Call("bash", {"command": "rm"})], "WRONG", True),
        (TWICE, [BASH, BASH], "WRONG", True),
        (TWICE, [BASH], "RIGHT", False),
        # A cut call is right only if it is open and a beginning.
        (CUT, [Call("read", {"file_path": "a"})], "WRONG", False),
        (CUT, [], "RIGHT", False),
    ],
)
def test_calls_are_judged(
    case: Case, calls: list[Call], verdict: str, ran: bool
) -> None:
    found = judge(case, Reading([_read(call) for call in calls]))
    assert found == (Verdict[verdict], ran)


@pytest.mark.parametrize(
    ("case", "reading", "verdict"),
    [
        (ONE, Reading([_read(WRITE)], content="Hi."), "TEXT"),
        (ONE, Reading([_read(WRITE)], content="Hi.\n\nBye."), "RIGHT"),
        (ONE, Reading([_read(WRITE, whole=False)]), "WRONG"),
        (CUT, Reading([_cut("a")]), "RIGHT"),
        (CUT, Reading([_cut("b")]), "WRONG"),
    ],
)
def test_text_and_ends_are_judged(case: Case, reading: Reading, verdict: str) -> None:
    assert judge(case, reading)[0] is Verdict[verdict]


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
    reading = Reading([ReadCall("read", open_text=text)])
    assert judge(CUT, reading, served=True)[0] is verdict


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
