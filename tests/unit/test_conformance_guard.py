# SPDX-License-Identifier: Apache-2.0
"""The guard lists what is worse than stock, by the order of harm."""

from pathlib import Path
from typing import Any

import pytest

from conformance import guard
from conformance.case import parse
from conformance.check import HARMS
from conformance.report import Report

RAN = ["runs", "f", '{"a": "x"}']
OTHER = ["runs", "f", '{"a": "y"}']
REFUSED = ["refused", "f", "{}"]


def _case(*calls: str, open_: bool = False, end: str = "stop") -> Any:
    finish = "tool_calls" if calls else "stop"
    expected = {
        "calls": [{"name": "f", "arguments": {"a": value}} for value in calls],
        "finish_reason": finish if end == "stop" else end,
    }
    document = {
        "description": "a case of a test",
        "source": "a test",
        "class": "implementation-defined" if open_ else "must",
        "tools": [{"name": "f", "parameters": {}}],
        "output": "",
        "end": end,
        "expected": expected,
    }
    return parse(document, "group/name")


def _result(
    harm: str = "", acts: list[Any] | None = None, calls: str = ""
) -> dict[str, Any]:
    return {
        "case": "group/name",
        "surface": "chat",
        "start": "plain",
        "right": [] if harm else ["w1"],
        "wrong": {"w1": [harm, "because"]} if harm else {},
        "acts": {} if acts is None else {"w1": [calls, acts]},
    }


@pytest.mark.parametrize("stock", ["", *HARMS])
@pytest.mark.parametrize("patched", ["", *HARMS])
def test_a_worse_harm_is_listed_and_no_other(stock: str, patched: str) -> None:
    order = [*HARMS, ""]
    worse, count = guard.compare([_case()], [_result(stock)], [_result(patched)])
    is_worse = order.index(patched) < order.index(stock)
    assert [one.patched for one in worse] == [patched] * is_worse
    assert count["suite"]["better"] == (order.index(patched) > order.index(stock))


@pytest.mark.parametrize(
    ("stock", "patched", "harm"),
    [
        # The model tries again, or is never told.
        ([REFUSED], [], "lost"),
        ([], [REFUSED], ""),
        # Nobody knows whether it was asked for: no more and no less than stock.
        ([RAN], [], "lost"),
        ([RAN], [REFUSED], "refused"),
        ([], [RAN], "ran"),
        ([RAN], [OTHER], "ran"),
        ([RAN], [RAN], ""),
    ],
)
def test_without_a_right_reading_a_client_s_doing_counts(
    stock: list[Any], patched: list[Any], harm: str
) -> None:
    case = _case(open_=True)
    worse, _ = guard.compare([case], [_result(acts=stock)], [_result(acts=patched)])
    assert [one.patched for one in worse] == [harm] * bool(harm)


def test_what_ran_is_excused_by_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "REASONS", tmp_path / "guard.json")
    for pattern, harm, reasoned in (
        ("group/*", "bytes", 1),
        ("group/*", "ran", 0),
        ("group/name", "ran", 1),
    ):
        guard.REASONS.write_text(f'{{"{pattern}": "anchor"}}')
        _, count = guard.compare([_case()], [_result()], [_result(harm)])
        assert count["suite"]["reasoned"] == reasoned


def test_other_schedules_are_not_compared() -> None:
    patched = _result() | {"wrong": {"split@3": ["ran", "because"]}}
    stock = _result() | {"right": ["w1", "split@3"]}
    assert guard.compare([_case()], [stock], [patched])[0] == []


def test_the_suite_is_kept_without_the_corpora() -> None:
    other = _result() | {"case": "corpora/holdout/1"}
    both = [one | {"ordinary": False, "sdk": {}} for one in (_result(), other)]
    kept = Report("tree", "stock", "", results=both).document()
    assert kept["traffic"]["adversarial"]["k=0"]["all"] == 1


def test_what_was_probably_meant_counts_by_its_calls() -> None:
    case = _case("x", open_=True)
    right, other = _result(acts=[RAN]), _result(acts=[OTHER], calls="bytes")
    assert guard.compare([case], [other], [right])[0] == []
    (one,) = guard.compare([case], [right], [other])[0]
    assert one.patched == "bytes"


def test_what_is_left_out_of_a_cut_output_is_not_lost() -> None:
    for stock, patched, harms in (([RAN], [], []), ([], [RAN], ["ran"])):
        case = _case(open_=True, end="length")
        before, after = _result(acts=stock), _result(acts=patched)
        worse, _ = guard.compare([case], [before], [after])
        assert [one.patched for one in worse] == harms
