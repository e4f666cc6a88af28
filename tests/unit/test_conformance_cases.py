# SPDX-License-Identifier: Apache-2.0
"""The conformance suite's cases and the schedules that cut them."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conformance import case as cases
from conformance import schedule
from conftest import ran
from patchset import paths
from patchset.errors import PatchsetError

ALL = list(cases.load())
GOOD = {
    "description": "a good case",
    "class": "must",
    "source": "test",
    "output": "x",
    "expected": {"content": "x", "finish_reason": "stop"},
}


def test_there_are_cases_of_every_class_and_source() -> None:
    assert len(ALL) >= 150
    assert {c.class_ for c in ALL} == {"must", "must-not", "implementation-defined"}
    codes = {code for case in ALL for code in re.findall(r"\b[DE]\d+\b", case.source)}
    defects = {*(f"D{n}" for n in range(1, 12)), *(f"E{n}" for n in range(1, 12))}
    assert codes >= defects - {"D8", "E7", "E9"}


def test_a_file_holds_a_group_and_its_tools(tmp_path: Path) -> None:
    tools = [{"name": "read", "parameters": {"type": "object"}}]
    case = {**GOOD, "tools": "read"}
    group = {"tools": {"read": tools}, "cases": {"a": case, "b": case}}
    (tmp_path / "two.json").write_text(json.dumps(group))
    (tmp_path / "own.json").write_text(json.dumps({**case, "tools": tools}))
    assert [c.name for c in cases.load(root=tmp_path)] == ["own", "two/a", "two/b"]
    for patterns in (["two/b"], ["*/b"], [str(tmp_path / "own.json")]):
        (found,) = cases.load(patterns, root=tmp_path)
        assert found.tools[0].name == "read"
    with pytest.raises(ValueError, match="given twice"):
        cases.unique([("a", 1), ("a", 2)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "should"}, "class"),
        ({"expected": {"finish_reason": "tool_calls"}}, "finishes with"),
        (
            {
                "expected": {
                    "calls": [{"name": "nope", "arguments": {}}],
                    "finish_reason": "tool_calls",
                }
            },
            "without tools",
        ),
        ({"end": "length"}, "cut by length"),
        ({"suprise": 1}, "suprise"),
        ({"expected": {"reasoning": "x", "finish_reason": "stop"}}, "thought"),
        ({"tool_choice": "required"}, "constrain it to JSON"),
        ({"output_as_json": "[]"}, "constrain it to JSON"),
    ],
)
def test_a_wrong_case_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        cases.parse({**GOOD, **change}, "a/b")


def test_the_start_thought_adds_reasoning_and_the_gap_only_before_text() -> None:
    run = cases.parse(GOOD, "a/b").run("thought")
    assert run.output == "Let me think.\n</think>\n\nx"
    expected = (run.expected.reasoning, run.expected.content)
    assert expected == ("Let me think.\n", "\n\nx")
    call = next(
        c
        for c in ALL
        if c.opens_with == "call" and "thought" in c.starts and not c.expected.content
    )
    assert call.run("thought").expected.content == ""


def test_ordinary_is_what_the_chat_template_writes() -> None:
    ordinary = {case.name for case in ALL if case.ordinary}
    assert {"calls/2-calls", "content/around", "types/string-digits"} <= ordinary
    others = ("markup/block-only", "cut/in-value", "types/spelled-leading-zero")
    assert ordinary.isdisjoint((*others, "undeclared/alone", "names/padded"))


def test_a_call_that_the_model_closed_before_it_was_cut_is_known() -> None:
    closed = {
        case.name
        for case in ALL
        if any(call.closed for call in case.run(case.starts[0]).expected.calls)
    }
    assert {"cut/after-call", "cut/in-tool-call-end"} <= closed
    assert closed.isdisjoint({"cut/in-value", "cut/in-value-with-tag"})


def test_required_calls_are_json_where_the_release_constrains_them() -> None:
    required = [c for c in ALL if c.tool_choice == "required"]
    assert len(required) >= 3
    for case in required:
        assert json.loads(case.run("plain", json_calls=True).output) == [
            {"name": c.name, "parameters": c.arguments} for c in case.expected.calls
        ]
        output = case.run("plain").output
        assert ("<tool_call>\n<function=" in output) == bool(case.expected.calls)


@given(st.integers(1, 200), st.integers(1, 15), st.integers())
def test_irregular_widths_add_up_and_stay_within_k_plus_one(
    count: int, k: int, seed: int
) -> None:
    widths = schedule.irregular(count, k, seed)
    assert sum(widths) == count
    assert all(1 <= w <= k + 1 for w in widths)
    assert widths == schedule.irregular(count, k, seed)


def test_a_default_run_has_every_kind_and_full_has_all_splits() -> None:
    texts = ["a", "<", "/", "x", ">\n", "b", "", "c", "d", "e"] * 5
    names = list(schedule.schedules(texts, "key"))
    assert {"w1", "whole", "mtp1#0", "mtp5#0", "mtp7#0", "mtp15#0"} <= set(names)
    assert sum(n.startswith("split@") for n in names) == schedule.NEAR_LIMIT
    full = set(schedule.schedules(texts, "key", full=True))
    assert {f"split@{i}" for i in range(1, len(texts))} <= full


@pytest.mark.parametrize(
    "name", ["w1", "w7", "whole", "split@3", "mtp2#0", "cuts:3,4,3"]
)
def test_a_name_means_the_same_widths_again(name: str) -> None:
    one = schedule.named(name, 10)
    assert sum(one) == 10
    assert schedule.named(name, 10) == one
    assert schedule.column(name) in schedule.COLUMNS


@pytest.mark.parametrize(
    "name", ["split@0", "split@10", "cuts:3,3", "nonsense", "w", "cuts:10,0"]
)
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError):  # every impossible name is a plain ValueError
        schedule.named(name, 10)


def test_a_failed_case_of_a_file_is_repeated_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    case = json.dumps({**GOOD, "output": "y"})
    file.write_text(f'{{"cases": {{"one": {case}, "two": {case}}}}}')
    command = [sys.executable, "-m", "conformance", "--reader", "--case", str(file)]
    environment = {**os.environ, "PYTHONPATH": "tests/lanes:scripts"}
    told = run(command, environment)
    assert "mine/one" in told and "mine/two" in told
    (line, _) = [each.strip() for each in told.splitlines() if "PYTHONPATH=" in each]
    again = run(shlex.split(line.partition(" ")[2]), environment)
    assert "mine/one" in again and "mine/two" not in again


def run(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command prints that is run in the project's root."""
    return ran(command, 1, cwd=paths.project_root(), env=environment).stdout


def test_a_file_with_a_wrong_case_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"cases": {"one": {"source": "format.md#calls"}}}')
    with pytest.raises(
        PatchsetError, match=r"mine\.json.*mine/one.*description: Field"
    ):
        list(cases.load([str(file)]))
