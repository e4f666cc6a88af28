# SPDX-License-Identifier: Apache-2.0
"""The conformance suite's cases, schedules, corpora and hosts, and the README's example."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conformance import adapters, before_after, documented, report, schedule
from conformance import case as cases
from conformance.adapters import AdapterError, TreeAdapter
from conformance.corpora import CORPORA, fragments, ordinary, sloppy
from conformance.corpora import spelling as spellings
from conformance.corpora.case import Call, Case, arguments, required
from conformance.corpora.reader import ReadCall, Reading, Value
from conformance.corpora.verdict import Verdict, judge
from conformance.host.__main__ import knows
from conftest import lay, running

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
    for row in range(1, 18):
        assert any(c.source == f"format: example row {row}" for c in ALL), row


def test_a_file_holds_a_group_and_its_tools(tmp_path: Path) -> None:
    tools = [{"name": "read", "parameters": {"type": "object"}}]
    case = {**GOOD, "tools": "read"}
    group = {"tools": {"read": tools}, "cases": {"a": case, "b": case}}
    (tmp_path / "two.json").write_text(json.dumps(group))
    (tmp_path / "own.json").write_text(json.dumps({**case, "tools": tools}))
    names = [c.name for c in cases.load(root=tmp_path)]
    assert names == ["own", "two/a", "two/b"]
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
        said = json.loads(case.run("plain", json_calls=True).output)
        assert said == [
            {"name": c.name, "parameters": c.arguments} for c in case.expected.calls
        ]
        assert case.run("plain").output.startswith("<tool_call>")


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


HOST = """
import json, sys, time
for line in sys.stdin:
    job = json.loads(line)
    if job.get("name") == "dies":
        sys.exit(1)
    if job.get("name") == "hangs":
        time.sleep(60)
    ready = {"release": "9.9.9", "tree": sys.argv[1]}
    print(json.dumps({"name": job["name"], "results": []} if job else ready), flush=True)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return lay(tmp_path, {"vllm/__init__.py": ""})


class Stub(TreeAdapter):
    """The adapter with another program in the place of the host."""

    host_tree: Path | None = None
    started = 0

    def _command(self) -> list[str]:
        self.started += 1
        return [sys.executable, "-c", HOST, str(self.host_tree or self.tree)]


def job(name: str) -> adapters.Job:
    return {
        "name": name,
        "case": {"class": "must", "output": ""},
        "surfaces": ["chat"],
        "starts": ["plain"],
    }


def test_a_host_that_dies_or_hangs_is_replaced_and_its_case_is_wrong(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "JOB_LIMIT_S", 1.0)
    jobs = [job(name) for name in ("a", "dies", "b", "hangs", "c")]
    results = {found["name"]: found for found in Stub(tree, workers=1).run(jobs)}
    assert len(results) == 5 and results["a"]["results"] == []
    for name in ("dies", "hangs"):
        found = report.Report("x", "tree", "repeat")
        found.add(results[name])
        assert found.total()["right"] == 0 < found.total()["lost"]
        assert found.failures()[0]["problems"][0].startswith("hang:")


def test_a_run_that_ends_early_leaves_no_host_and_starts_none(
    tree: Path,
) -> None:
    adapter = Stub(tree, workers=2)
    # Each death starts another host.
    results = adapter.run([job("a"), *(job("dies") for _ in range(50))])
    next(results)
    results.close()
    count = adapter.started
    assert not running(str(tree))
    time.sleep(0.3)
    assert adapter.started == count < 50


def test_a_host_that_runs_other_code_is_refused(tree: Path, tmp_path: Path) -> None:
    adapter = Stub(tree, workers=1)
    adapter.host_tree = tmp_path / "elsewhere"
    with pytest.raises(AdapterError, match="could not be started"):
        list(adapter.run([job("a")]))


def test_a_surface_or_a_release_that_does_not_know_the_request_is_not_asked() -> None:
    (case,) = cases.load(["requests/namespace"])
    jobs = adapters.jobs_for([case], surfaces=["chat", "responses", "messages"])
    assert [job["surfaces"] for job in jobs] == [["responses"]]
    assert [
        knows(release, case.since)
        for release in ("0.20.2", "0.25.0", "0.25.1", "0.33.0", "dev")
    ] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_the_readme_shows_an_example_that_the_suite_accepts() -> None:
    (case,) = cases.read(before_after.EXAMPLE)
    content = case.expected.calls[0].arguments["content"]
    assert content in case.output and "<function=bash>" in content
    readme = before_after.README.read_text(encoding="utf-8")
    assert f"```xml\n{case.output}\n```" in readme
    assert before_after.BLOCK.search(readme)


def test_what_went_wrong_is_remarked_and_what_is_right_is_not() -> None:
    def call(name: str, text: str) -> dict[str, str]:
        return {"name": name, "text": text}

    whole = json.dumps({"path": "x"})
    answers = {
        "one": {
            "calls": [call("write", whole[:-1]), call("bash", "{}")],
            "content": "left\n",
            "finish": "tool_calls",
        },
        "two": {"calls": [call("write", whole)], "content": ""},
    }
    one, two = before_after.shown(answers).split("from two:")
    assert (
        "not valid JSON" in one and "only quoted" in one and r'text    "left\n"' in one
    )
    assert "<-" not in two and "text    " not in two


def test_documented_lines_are_read_with_their_continuations_and_defaults() -> None:
    text = "```console\n$ A=1 vllm serve M --x \\\n    --y '{\"a\": 1}'\n$ vllm bench\n```\n"
    assert documented.lines(text) == [["M", "--x", "--y", '{"a": 1}']]
    assert documented.in_manifest("services: {v: {command: ['${MODEL:-M}', --x]}}") == [
        ["M", "--x"]
    ]
    run = "$ docker run --rm \\\n  --ipc host localhost/vllm-mtp-patches:v1-cuda \\\n  M --x\n"
    assert documented.lines(run) == [["M", "--x"]]
    assert documented.lines(run.replace("M --x", "MODEL FLAGS")) == []
    found = documented.documented()
    assert {
        "README.md",
        "docs/deploying.md",
        "docker/compose.yaml",
        "docker/kubernetes/vllm.yaml",
    } <= set(found)
    assert all(
        "--tool-call-parser" in " ".join(line)
        for some in found.values()
        for line in some
    )
