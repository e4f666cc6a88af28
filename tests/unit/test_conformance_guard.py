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


#: Of the calls that were probably meant, and of others.
MEANT, NOT_MEANT = ("", [RAN]), ("bytes", [OTHER])


@pytest.mark.parametrize(
    ("case", "stock", "patched", "harm"),
    [
        # The model tries again, or is never told.
        (_case(open_=True), ("", [REFUSED]), ("", []), "lost"),
        (_case(open_=True), ("", []), ("", [REFUSED]), ""),
        # Nobody knows whether it was asked for: no more and no less than stock.
        (_case(open_=True), ("", [RAN]), ("", []), "lost"),
        (_case(open_=True), ("", [RAN]), ("", [REFUSED]), "refused"),
        (_case(open_=True), ("", []), ("", [RAN]), "ran"),
        (_case(open_=True), ("", [RAN]), ("", [OTHER]), "ran"),
        (_case(open_=True), ("", [RAN]), ("", [RAN]), ""),
        # What was probably meant counts by its calls.
        (_case("x", open_=True), NOT_MEANT, MEANT, ""),
        (_case("x", open_=True), MEANT, NOT_MEANT, "bytes"),
        # What is left out of a cut output is not lost.
        (_case(open_=True, end="length"), ("", [RAN]), ("", []), ""),
        (_case(open_=True, end="length"), ("", []), ("", [RAN]), "ran"),
    ],
)
def test_without_a_right_reading_a_client_s_doing_counts(
    case: Any, stock: tuple[str, list[Any]], patched: tuple[str, list[Any]], harm: str
) -> None:
    results = [_result(acts=acts, calls=calls) for calls, acts in (stock, patched)]
    worse, _ = guard.compare([case], results[:1], results[1:])
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
