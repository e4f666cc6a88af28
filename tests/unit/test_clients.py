"""The parts of the lane that need no client: what is said, how a run is judged, and that nothing is left running."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clients import scenarios, table
from clients.__main__ import NAMES, load, options
from clients.client import Client
from clients.install import HERE, templates
from clients.judge import Outcome, judge
from clients.reading import declared, history
from clients.runs import Job, LaneError, Processes
from clients.scenarios import Call, Say, Turn, Write
from patchset.errors import PatchsetError
from patchset.results import totals

CLIENTS = load([])
FOLDER = Path("/work-folder")


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    return (
        "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + "\n\n"
    )


def called(arguments: dict[str, Any], thought: str = "I know what to do.\n") -> str:
    """A right stream of one call."""
    call = {
        "index": 0,
        "id": "call-1",
        "type": "function",
        "function": {"name": "write_file", "arguments": json.dumps(arguments)},
    }
    return (
        chunk({"reasoning": thought}) + chunk({"content": "\n\n"}) + chunk({"tool_calls": [call]})
        + chunk({}, "tool_calls") + "data: [DONE]\n\n"
    )  # fmt: skip


def answered(text: str) -> str:
    """A right stream of an answer."""
    return (
        chunk({"reasoning": "I know what to do.\n"})
        + chunk({"content": text})
        + chunk({}, "stop")
        + "data: [DONE]\n\n"
    )


def plain_run(**changes: Any) -> Outcome:
    """A run of the scenario ``plain`` that went right, with changes."""
    arguments = {"path": "/work-folder/hello.txt", "content": "Hello, world.\n"}
    made = [{"name": "write_file", "arguments": arguments}]
    repeated = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "write_file", "arguments": json.dumps(arguments)}}],
    }
    tools = [{"type": "function", "function": {"name": "write_file", "parameters": {}}}]
    first = {
        "path": "/v1/chat/completions",
        "request": {"stream": True, "tools": tools},
        "turn": 0,
        "status": 200,
        "calls": made,
    }
    second = {
        **first,
        "request": {"stream": True, "tools": tools, "messages": [repeated]},
        "turn": 1,
        "calls": [],
    }
    outcome: dict[str, Any] = {
        "files": {"hello.txt": b"Hello, world.\n"},
        "answer": "The work is done.",
        "exchanges": [
            {**first, "body": called(arguments)},
            {**second, "body": answered("The work is done.")},
        ],
    }
    return Outcome(**{**outcome, **changes})


def verdict(outcome: Outcome) -> Any:
    client = CLIENTS["langchain"]
    return judge(client, client.scenario(scenarios.ALL["plain"], FOLDER), outcome, thinks=True)


def test_a_right_run_is_right() -> None:
    assert verdict(plain_run()).kind == "right", verdict(plain_run()).why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"files": {"hello.txt": b"Hello, world."}}, "hello.txt: after"),
        ({"files": {}}, "hello.txt was not written"),
        ({"files": {"hello.txt": b"Hello, world.\n", "b": b""}}, "b was written and never asked for"),
        ({"answer": "Done."}, "the final answer"),
        ({"answer": None, "error": "it ended with status 1"}, "it ended with status 1"),
    ],
)
def test_a_wrong_outcome_of_right_streams_is_the_clients(changes: dict[str, Any], why: str) -> None:
    told = verdict(plain_run(**changes))
    assert (told.kind, told.quoted) == ("client", False)
    assert why in told.why[0]


def test_a_call_that_is_repeated_otherwise_is_the_clients() -> None:
    outcome = plain_run()
    outcome.exchanges[1]["request"]["messages"][0]["tool_calls"][0]["function"]["arguments"] = "{}"
    assert verdict(outcome).kind == "client"


def test_what_becomes_of_an_unknown_tools_call_is_the_clients_affair() -> None:
    outcome = plain_run()
    outcome.exchanges[0]["request"]["tools"] = []
    outcome.exchanges[1]["request"]["messages"][0]["tool_calls"][0]["function"]["name"] = "invalid"
    assert verdict(outcome).kind == "right"


def test_a_wrong_stream_is_the_servers_even_if_the_client_recovers() -> None:
    outcome = plain_run()
    outcome.exchanges[1]["body"] = answered("The work is")
    assert verdict(outcome).kind == "server"


def test_a_quoted_call_in_a_stream_is_told() -> None:
    outcome = plain_run()
    outcome.exchanges[0]["body"] = outcome.exchanges[0]["body"].replace("write_file", scenarios.QUOTED_NAME)
    told = verdict(outcome)
    assert (told.kind, told.quoted) == ("server", True)


def test_a_refusal_counts_even_if_the_client_recovers() -> None:
    outcome = plain_run()
    outcome.exchanges.insert(0, {**outcome.exchanges[0], "status": 400, "body": "no system message here"})
    told = verdict(outcome)
    assert told.kind == "refused"
    assert "no system message here" in told.why[0]


def test_a_call_is_rendered_as_the_template_writes_it() -> None:
    turn = Turn((Say("First."), Write("a", "b\n"), Write("c", ""), Say("Last.")), "Hm.")
    calls = [Call("w", {"path": "a", "content": "b\n"}), Call("w", {"path": "c", "n": 1})]
    assert scenarios.render(turn, calls, thinks=True) == (
        "Hm.\n</think>\n\nFirst.\n\n<tool_call>\n<function=w>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nb\n\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=w>\n<parameter=path>\nc\n</parameter>\n<parameter=n>\n1\n"
        "</parameter>\n</function>\n</tool_call>\nLast."
    )
    assert scenarios.render(turn, calls, thinks=False).startswith("First.")


@pytest.mark.parametrize("name", NAMES)
def test_every_client_plays_scenarios_that_are_complete(name: str) -> None:
    client: Client = CLIENTS[name]
    assert client.name == name
    played = [s for s in scenarios.ALL.values() if client.plays(s.name)]
    assert len(played) >= 5
    for scenario in played:
        filled = client.scenario(scenario, FOLDER)
        assert scenarios.OWN not in repr(filled)
        written = {p.path for turn in filled.turns for p in turn.parts if isinstance(p, Write)}
        assert set(filled.files) - set(filled.before) <= written


def test_what_a_file_quotes_is_a_call_of_the_clients_own_tool() -> None:
    filled = CLIENTS["claude_code"].scenario(scenarios.ALL["tags"], FOLDER)
    block = "<tool_call>\n<function=Write>\n<parameter=file_path>\n/work-folder/quoted.txt\n</parameter>\n"
    assert filled.files["format.md"].count(block) == 2


def test_tools_are_read_from_every_surface() -> None:
    schema = {"type": "object"}
    chat = {"tools": [{"type": "function", "function": {"name": "a", "parameters": schema}}]}
    assert declared("/v1/chat/completions", chat) == {"a": schema}
    inner = {"type": "function", "name": "b", "parameters": schema}
    assert declared("/v1/responses", {"tools": [{"type": "namespace", "name": "n", "tools": [inner]}]}) == {
        "b": schema
    }
    assert declared("/v1/messages", {"tools": [{"name": "c", "input_schema": schema}]}) == {"c": schema}


def test_one_turn_of_responses_is_several_items() -> None:
    items = [
        {"role": "user", "content": "x"},
        {"type": "reasoning"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {"type": "function_call", "name": "a", "arguments": "{}"},
        {"type": "function_call_output", "output": ""},
        {"type": "function_call", "name": "b", "arguments": '{"n": 1}'},
    ]
    turns = history("/v1/responses", {"input": items})
    assert [(t.content, t.calls) for t in turns] == [("t", [("a", {})]), ("", [("b", {"n": 1})])]


def test_ending_a_process_ends_what_it_started() -> None:
    processes = Processes()
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    process = processes.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    child = int(process.stdout.readline())
    processes.end_all()
    for _ in range(50):
        try:
            state = Path(f"/proc/{child}/stat").read_text().split()[2]
        except FileNotFoundError:
            break
        if state == "Z":
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        raise AssertionError("the child still runs")
    with pytest.raises(LaneError):
        processes.start(["true"])


def test_templates_without_their_source_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PatchsetError, match="is missing") as raised:
        templates(tmp_path / "out", tmp_path)
    assert "nox -s apply -- v0.33.0" in str(raised.value.hint)


def test_an_unknown_release_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "clients", "--release", "v9.9.9", "--build", str(tmp_path / "build")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 2
    assert "error: unknown release v9.9.9" in done.stderr
    assert not (tmp_path / "build").exists()


def test_an_unknown_client_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options(["no-such-client"])
    assert ended.value.code == 2
    assert "claude_code" in capsys.readouterr().err


def test_locks_name_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    packages = [p for name, p in lock["packages"].items() if name]
    assert packages and all("integrity" in p and "resolved" not in p for p in packages)
    for name in ("python.txt", "aider.txt"):
        text = (HERE / name).read_text()
        assert not re.search(r"https?://|--index-url|--find-links", text)
        assert text.count("==") and "--hash=sha256:" in text


def test_the_table_shows_stock_beside_patched() -> None:
    run = {
        "client": "codex",
        "surface": "responses",
        "scenario": "plain",
        "k": 0,
        "verdict": "right",
        "why": [],
        "quoted": False,
    }
    wrong = {**run, "verdict": "server", "quoted": True}
    text = table.markdown(table.document("v0", {"stock": [wrong], "patched": [run]}))
    assert "| codex | responses | ✗ → ✓ | 0/1 → 1/1 |" in text
    assert "v0 stock: 0 of 1 runs right; quoted calls that reached a client: 1." in text


def test_results_keep_the_clients_that_were_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "file", lambda lane, release: tmp_path / f"{release}.json")
    run = {
        "client": "codex",
        "surface": "responses",
        "scenario": "plain",
        "k": 3,
        "verdict": "right",
        "quoted": False,
    }
    table.write_results(
        table.document(
            "v0.33.0", {"stock": [{**run, "verdict": "server", "quoted": True}], "patched": [run]}
        ),
        tmp_path,
    )
    table.write_results(
        table.document("v0.33.0", {"patched": [{**run, "client": "aider", "surface": "chat"}]}), tmp_path
    )
    cells = totals.read("clients", "v0.33.0")
    assert cells["stock"]["clients"]["codex/responses"]["not right"] == {"plain: server": [3]}
    assert cells["stock"]["clients"]["codex/responses"]["quoted"] == 1
    assert sorted(cells["patched"]["clients"]) == ["aider/chat", "codex/responses"]
    assert cells["patched"]["clients"]["aider/chat"]["k"] == [3]


def test_a_fault_of_a_clients_own_has_the_raw_stream_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "file", lambda lane, release: tmp_path / f"{release}.json")
    job = Job("claude_code", "messages", "spaces", 5, "qwen3.5")
    why = [f"{tmp_path}/{job.name}/work/spaces.txt: after 'x'"]
    run = {**vars(job), "verdict": "client", "why": why, "quoted": False}
    (tmp_path / job.name).mkdir()
    exchanges = [
        {"turn": None, "said": "A title", "body": ""},
        {"turn": 0, "said": "a \n", "body": "data: 1\n\n"},
    ]
    (tmp_path / job.name / "exchanges.json").write_text(json.dumps({"exchanges": exchanges}))
    table.write_results(table.document("v0.33.0", {"patched": [{**run, "k": 0}, run]}), tmp_path)
    told = (tmp_path / "v0.33.0.faults.txt").read_text()
    assert told.startswith("# claude code, messages, spaces, k = 5: it removes white space")
    assert "FOLDER/spaces.txt: after 'x'" in told and str(tmp_path) not in told
    assert "data: 1" in told and "A title" not in told


def test_where_calls_are_required_nothing_else_is_said() -> None:
    client = CLIENTS["smolagents"]
    assert not client.plays("undeclared")
    turn = client.turn(scenarios.ALL["prose"], 0)
    assert [type(part) for part in turn.parts] == [Write]
