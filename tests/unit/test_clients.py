# SPDX-License-Identifier: Apache-2.0
"""Parts of the clients lane that need no client: what is said, and how it is judged."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import results
from clients import SUITE_VERSION, scenarios, table
from clients.agents import CLIENTS
from clients.install import HERE, SINCE_THE_QUESTION, THINKING_UNLESS, template
from clients.judge import Outcome, Verdict, judge, shown
from clients.reading import asks, declared, history
from clients.scenarios import Call, Say, Turn, Write
from conformance import tokens
from conformance.lines import Child
from conftest import running, until
from patchset import release

FOLDER = Path("/work-folder")
CLIENT = CLIENTS["langchain"]


def stream(delta: dict[str, Any], finish: str) -> str:
    thought: dict[str, Any] = {"reasoning": "I know what to do.\n"}
    choices: list[dict[str, Any]] = [{"delta": thought}, {"delta": delta}]
    choices += [{"delta": {}, "finish_reason": finish}]
    chunks = (json.dumps({"choices": [{"index": 0, **choice}]}) for choice in choices)
    return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])


def answered(text: str) -> str:
    return stream({"content": text}, "stop")


def exchanges(scenario: str) -> list[dict[str, Any]]:
    """Return a right turn with a call, and the answer."""
    filled = CLIENT.scenario(scenarios.ALL[scenario], FOLDER)
    part = next(p for p in filled.turns[0].parts if not isinstance(p, Say))
    call = CLIENT.call(part, FOLDER)
    made = {"function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
    tools = [{"type": "function", "function": {"name": call.name, "parameters": {}}}]
    asked = {"stream": True, "tools": tools}
    whole = {"index": 0, "id": "call-1", "type": "function", **made}
    exchange = {"path": "/v1/chat/completions", "status": 200, "admitted": None}
    repeated = [{"role": "assistant", "tool_calls": [made]}]
    return [
        {
            **exchange,
            "turn": 0,
            "request": asked,
            "calls": [vars(call)],
            "body": stream({"tool_calls": [whole]}, "tool_calls"),
        },
        {
            **exchange,
            "turn": len(filled.turns) - 1,
            "request": {**asked, "messages": repeated},
            "calls": [],
            "body": answered("The work is done."),
        },
    ]


def verdict(scenario: str = "plain", **changes: Any) -> Verdict:
    """Return the verdict on a run that went right, with changes."""
    filled = CLIENT.scenario(scenarios.ALL[scenario], FOLDER)
    right = {
        "files": {name: text.encode() for name, text in filled.files.items()},
        "answer": "The work is done.",
        "exchanges": exchanges(scenario),
    }
    return judge(filled, Outcome(**{**right, **changes}))


@pytest.mark.parametrize(
    ("changes", "kind", "why"),
    [
        ({}, "right", ""),
        ({"files": {"hello.txt": b"Hello, world."}}, "bytes", "hello.txt: matched"),
        ({"files": {}}, "lost", "hello.txt is not there"),
        (
            {"files": {"hello.txt": b"Hello, world.\n", "b": b""}},
            "ran",
            "b was never asked",
        ),
        ({"answer": "Done."}, "text", "the answer"),
        ({"answer": None, "error": "it ended with status 1"}, "lost", "status 1"),
    ],
)
def test_a_wrong_outcome_of_right_streams_is_the_clients(
    changes: dict[str, Any], kind: str, why: str
) -> None:
    told = verdict(**changes)
    assert (told.kind, told.own) == (kind, kind != "right")
    assert why in "".join(told.why[:1])


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        ([], "lost"),
        ([("write_file", "{}")], "bytes"),
        ([("write_file", "{}")] * 2, "ran"),
    ],
)
def test_calls_that_a_request_repeats_otherwise_are_a_harm(
    calls: list[tuple[str, str]], kind: str
) -> None:
    said = exchanges("plain")
    said[1]["request"]["messages"][0]["tool_calls"] = [
        {"function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    assert verdict(exchanges=said).kind == kind


def test_unknown_tools_and_the_form_of_a_stream_are_no_harm() -> None:
    said = exchanges("plain")
    said[0]["request"]["tools"] = []
    said[1]["request"]["messages"][0]["tool_calls"] = []
    said[0]["body"] = said[0]["body"].replace('"tool_calls"}', '"stop"}')
    assert verdict(exchanges=said).kind == "right"


@pytest.mark.parametrize(
    ("at", "answer", "kind"),
    [
        (slice(1, 2), {"body": answered("The work is")}, "text"),
        (slice(0, 1), {"body": answered("")}, "lost"),
        # Even if the client recovers.
        (slice(0, 0), {"status": 400, "body": "no system message here"}, "lost"),
    ],
)
def test_what_a_stream_loses_is_not_the_clients(
    at: slice, answer: dict[str, Any], kind: str
) -> None:
    said = exchanges("plain")
    said[at] = [{**said[at.start], **answer}]
    told = verdict(exchanges=said)
    assert (told.kind, told.own) == (kind, False)


def test_a_grammar_that_admits_not_all_is_not_the_clients() -> None:
    said = exchanges("plain")
    said[0] |= {"said": "Hm.\n</think>\n\n<tool_call>", "admitted": "Hm.\n</think>\n"}
    told = verdict(exchanges=said)
    assert (told.kind, told.own) == ("lost", False)
    assert r"admits no '\n<tool_call>' behind" in told.why[0]


@pytest.mark.parametrize(
    ("lost", "sends", "whose"),
    [
        ("nothing", False, []),
        ("I think of first.", True, ["server"]),
        ("I think of first.", False, ["client"]),
        ("<function=write_file>", False, ["server"]),
        # An end token is lost.
        (tokens.EOS, True, ["server"]),
    ],
)
def test_a_second_question_must_show_the_replies_to_the_first(
    lost: str, sends: bool, whose: list[str]
) -> None:
    scenario = CLIENT.scenario(scenarios.ALL["again"], FOLDER)
    call = CLIENT.call(scenario.turns[0].parts[1], FOLDER)
    said = scenarios.render(scenario.turns[0], [call])
    request = {"input": [scenario.turns[0].thought] if sends else []}
    asked = [
        {"turn": 0, "said": said, "calls": [vars(call)], "request": request},
        {"turn": 2, "request": request},
    ]
    asked[0]["prompt"], asked[1]["prompt"] = "", f"{said}{tokens.EOS}".replace(lost, "")
    assert [found[0] for found in shown(scenario, asked)] == whose


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"tools": [{"function": {"strict": True}}]}, {"strict tools"}),
        ({"tools": [{"tools": [{"strict": True}]}]}, {"strict tools"}),
        ({"tool_choice": "required"}, {"tool_choice required"}),
        ({"parallel_tool_calls": False, "tool_choice": "auto"}, {"one call"}),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {"one call"},
        ),
        ({"tools": [{"strict": False}], "parallel_tool_calls": True}, set()),
    ],
)
def test_what_sets_a_grammar_is_read(request_: Any, found: set[str]) -> None:
    assert asks({"request": request_}) == found


@pytest.mark.parametrize(
    ("scenario", "files", "kind"),
    [
        ("cut-remove", scenarios.DATA, "right"),
        ("cut-remove", {}, "ran"),
        ("full-optional", {}, "ran"),
        ("cut-write", {}, "right"),
        ("cut-write", {"log.txt": scenarios.LOG[:20]}, "ran"),
        # A quoted call that is run is the worst harm.
        ("tags", {"format.md": "", scenarios.QUOTED_FILE: "quoted\n"}, "ran"),
    ],
)
def test_nothing_of_a_cut_or_quoted_call_is_done(
    scenario: str, files: dict[str, str], kind: str
) -> None:
    disk = {name: text.encode() for name, text in files.items()}
    assert verdict(scenario, files=disk, answer=None).kind == kind


def test_a_client_that_asks_nothing_is_not_right() -> None:
    told = verdict("cut-optional", files={}, exchanges=[], error="no module")
    assert (told.kind, told.why) == ("lost", ["it asked nothing: no module"])


def test_a_call_is_rendered_as_the_template_writes_it() -> None:
    turn = Turn((Say("First."), Write("a", "b\n"), Write("c", ""), Say("Last.")), "Hm.")
    calls = [
        Call("w", {"path": "a", "content": "b\n"}),
        Call("w", {"path": "c", "n": 1}),
    ]
    assert scenarios.render(turn, calls) == (
        "Hm.\n</think>\n\nFirst.\n\n<tool_call>\n<function=w>\n<parameter=path>\na\n"
        "</parameter>\n<parameter=content>\nb\n\n</parameter>\n</function>\n"
        "</tool_call>\n<tool_call>\n<function=w>\n<parameter=path>\nc\n"
        "</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\nLast."
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_quotes_calls_of_its_own_tools(name: str) -> None:
    client = CLIENTS[name]
    assert client.name == name
    played = [s for s in scenarios.ALL.values() if client.plays(s.name)]
    assert len(played) >= 5
    for scenario in played:
        filled = client.scenario(scenario, FOLDER)
        assert not re.search("@[A-Z]+@", repr(filled))
        parts = [part for turn in filled.turns[:-1] for part in turn.parts]
        calls = [client.call(p, FOLDER) for p in parts if not isinstance(p, Say)]
        assert all(call.arguments is not None for call in calls)
    yaml = client.scenario(scenarios.ALL["yaml"], FOLDER).files["calls.yaml"]
    own = client.call(Write(scenarios.QUOTED_FILE, "quoted"), FOLDER).name
    assert yaml.count(f"\n      <function={own}>\n") >= 2


SCHEMA = {"type": "object"}
FUNCTION = {"name": "a", "parameters": SCHEMA}
OWN = {"type": "function", **FUNCTION}


@pytest.mark.parametrize(
    ("surface", "tool"),
    [
        ("chat/completions", {"type": "function", "function": FUNCTION}),
        ("responses", {"type": "namespace", "name": "n", "tools": [OWN]}),
        ("messages", {"name": "a", "input_schema": SCHEMA}),
    ],
)
def test_tools_are_read_from_every_surface(surface: str, tool: dict[str, Any]) -> None:
    assert declared(f"/v1/{surface}", {"tools": [tool]}) == {"a": SCHEMA}


def test_one_turn_of_responses_is_several_items() -> None:
    items = [
        {"role": "user", "content": "x"},
        {"type": "reasoning"},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "name": "a", "arguments": "{}"},
        {"type": "function_call_output", "output": ""},
        {"type": "function_call", "name": "b", "arguments": '{"n": 1}'},
    ]
    assert history("/v1/responses", {"input": items}) == [
        [("a", {})],
        [("b", {"n": 1})],
    ]


def test_ending_a_process_ends_what_it_started() -> None:
    seconds = f"6{os.getpid():07}"
    child = Child(["sh", "-c", f"sleep {seconds} & wait"], {**os.environ})
    assert until(lambda: running(seconds))
    child.end()
    assert until(lambda: not running(seconds))


def test_the_model_thinks_unless_told_not_to_and_sees_it(tmp_path: Path) -> None:
    template(tmp_path / "out")
    text = (tmp_path / "out").read_text()
    assert text.count(THINKING_UNLESS) == 1 and SINCE_THE_QUESTION not in text


def test_locks_name_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    packages = [package for name, package in lock["packages"].items() if name]
    assert packages
    assert all("integrity" in one and "resolved" not in one for one in packages)
    text = "".join(lock.read_text() for lock in HERE.glob("python*.txt"))
    assert not re.search(r"https?://|--index-url|--find-links", text)
    assert text.count("==") and "--hash=sha256:" in text


RUN = {
    "client": "codex",
    "surface": "responses",
    "scenario": "plain",
    "k": 3,
    "verdict": "right",
    "own": False,
    "why": [],
    "asks": [],
}
WRONG = {**RUN, "verdict": "ran"}


def test_runs_are_counted_by_harm() -> None:
    text = table.summary("v0", {"stock": [WRONG], "patched": [RUN]})
    assert "v0 stock: 0 of 1 right; ran 1, bytes 0, lost 0, text 0, lane 0." in text


def test_results_keep_the_clients_that_were_not_run(
    rows: Path,
) -> None:
    table.write_results("v0.33.0", {"patched": [WRONG]})
    other = {**RUN, "client": "pi", "surface": "chat"}
    table.write_results("v0.33.0", {"patched": [other]})
    cell = results.read("clients", "v0.33.0")["patched"]
    assert cell["suite"] == SUITE_VERSION and cell["k"] == 3
    assert cell["clients"] == {
        "codex/responses": {"runs": 1, "right": 0, "ran": ["plain"]},
        "pi/chat": {"runs": 1, "right": 1},
    }


STRICT = {**RUN, "scenario": "tags", "asks": ["strict tools"]}
LONG = {**RUN, "scenario": "long"}
OTHER_LONG = {**WRONG, "scenario": "long", "verdict": "bytes"}


@pytest.mark.parametrize(
    ("kinds", "row"),
    [
        # What sets a grammar stands beside its client.
        (
            {"stock": [RUN], "patched": [RUN, STRICT]},
            "| codex | responses | strict tools | 1/1 → 2/2 |",
        ),
        # What a proxy changes is a row.
        (
            {"patched": [WRONG, LONG], "patched litellm": [WRONG, OTHER_LONG]},
            "| litellm | 0/2 | codex, responses: a call or a file with other bytes "
            "(long) |",
        ),
    ],
)
def test_runs_are_rows(rows: Path, kinds: Any, row: str) -> None:
    table.write_results("v0.33.0", kinds)
    assert row in table.table([release.load("v0.33.0")])


def test_who_runs_a_cut_call_of_a_tool_that_requires_nothing_is_counted(
    rows: Path,
) -> None:
    cut = {
        **WRONG,
        "client": "langchain",
        "surface": "chat",
        "scenario": "full-optional",
    }
    right = {**cut, "verdict": "right"}
    kinds = {"stock": [cut], "patched": [cut], "patched drop": [right]}
    table.write_results("v0.33.0", kinds)
    table.write_results("v0.33.0", {"stock": [right]}, whole=False)
    row = "| all optional, cut by max_tokens, not streamed | 0/1 → 1/1 → 0/1 |"
    assert row in table.table([release.load("v0.33.0")])
