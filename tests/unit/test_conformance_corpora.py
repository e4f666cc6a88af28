# SPDX-License-Identifier: Apache-2.0
"""The corpora and the judge of their readings."""

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
        assert len({case.name for case in cases}) == len(cases), name


def test_the_corpora_have_the_sizes_that_their_figures_are_quoted_with() -> None:
    corpora = (
        ordinary.first(),
        fragments.fragments(fragments.FIRST, 9),
        fragments.fragments(fragments.SECOND, 8),
        sloppy.omitted(),
        sloppy.stutter(),
        sloppy.spelled(spellings.CANONICAL),
    )
    assert [len(list(one)) for one in corpora] == [528, 117, 148, 50, 48, 28]


def test_every_value_and_every_quoted_call_stands_in_its_output() -> None:
    for name, build in CORPORA.items():
        for case in build() if name not in ("cuts", "ended") else ():
            texts = [text for call in case.calls for text in call.values.values()]
            assert all(text in case.output for text in texts), (name, case.name)


ONE = Case("", "", (WRITE,), content="Hi. Bye.")
QUOTED = Case("", "", (WRITE,), (BASH,))
TWICE = Case("", "", (BASH,), (BASH,))
CUT = Case("", "", (READ,), cut=True)


def _cut(path: str) -> ReadCall:
    return ReadCall("read", [Value("file_path", path, closed=True), Value("limit", "")])


@pytest.mark.parametrize(
    ("case", "calls", "verdict", "ran"),
    [
        (
            ONE,
            [_read(Call("write", {"file_path": "a", "content": "x"}))],
            "WRONG",
            False,
        ),
        # A quoted call that runs is counted even if it was cut short.
        (QUOTED, [_read(WRITE), _read(Call("bash", {"command": "rm"}))], "WRONG", True),
        (TWICE, [_read(BASH), _read(BASH)], "WRONG", True),
        (TWICE, [_read(BASH)], "RIGHT", False),
        (ONE, [_read(WRITE, whole=False)], "WRONG", False),
        # A cut call is right only if it is open and a beginning.
        (CUT, [_read(Call("read", {"file_path": "a"}))], "WRONG", False),
        (CUT, [], "RIGHT", False),
        (CUT, [_cut("a")], "RIGHT", False),
        (CUT, [_cut("b")], "WRONG", False),
    ],
)
def test_calls_are_judged(
    case: Case, calls: list[ReadCall], verdict: str, ran: bool
) -> None:
    assert judge(case, Reading(calls)) == (Verdict[verdict], ran)


@pytest.mark.parametrize(
    ("content", "verdict"), [("Hi.", "TEXT"), ("Hi.\n\nBye.", "RIGHT")]
)
def test_text_is_judged(content: str, verdict: str) -> None:
    found, _ = judge(ONE, Reading([_read(WRITE)], content=content))
    assert found is Verdict[verdict]


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
