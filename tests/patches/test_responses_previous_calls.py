# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-previous-calls: calls and thoughts of the response that
``previous_response_id`` names are in the prompt of the next one.
"""

import os
from typing import Any

import pytest

import harness
from application import QWEN35, Application, application
from conformance.host.engine import MODEL
from conformance.reading import sse
from harness import TOOLS, call

# The server's, which is made at the first request.
os.environ["VLLM_ENABLE_RESPONSES_API_STORE"] = "1"

ASK = {
    "input": "Read it.",
    "tools": [{"type": "function", **one["function"]} for one in TOOLS],
}
READ = call("read", ("path", "/a"))


def ask(
    said: str, end: str = "stop", served: Application | None = None, **fields: Any
) -> Any:
    """The response to a request for which the model says this."""
    app = (served or application()).app
    body = {"model": MODEL, **ASK, **fields}
    streams = fields.get("stream")
    steps = harness.script(said, 1 if streams else 100_000, end)
    status, answer = harness.post(app, "/v1/responses", body, steps)
    assert status == 200, answer
    last = sse(answer)[-1][1] if streams else answer.decode()
    found = harness.parsed(last)
    return found["response"] if streams else found


def result(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The next input: what the call of a response gave."""
    made = response["output"][-1]
    assert made["type"] == "function_call"
    output = {"type": "function_call_output", "output": "found"}
    return [{**output, "call_id": made["call_id"]}]


def turns() -> list[str]:
    """The turns of the last prompt behind its system message, without their role."""
    parts = application().history.split("<|im_start|>")[2:]
    return [one.partition("\n")[2].removesuffix("<|im_end|>\n") for one in parts]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["", "I read it.\n\n"])
def test_call_is_in_the_prompt(text: str, stream: bool) -> None:
    first = ask(text + READ, stream=stream)
    ask("Fine.", previous_response_id=first["id"], input=result(first))
    said = "".join(turns())
    assert said.count(READ) == 1
    assert said.index("Read it.") < said.index(READ) < said.index("found")
    assert text.strip() in said


def test_calls_of_all_turns() -> None:
    first = ask(READ)
    second = ask(READ, previous_response_id=first["id"], input=result(first))
    ask("Fine.", previous_response_id=second["id"], input=result(second))
    said = "".join(turns())
    assert said.count(READ) == said.count("found") == 2


def test_cut_call_is_left_out() -> None:
    first = ask("I read it.\n\n" + READ[:60], end="length")
    assert first["output"][-1]["status"] == "incomplete"
    ask("Fine.", previous_response_id=first["id"], input="Go on.")
    assert "I read it." in application().history
    assert "/a" not in application().history


def test_answer_without_a_call() -> None:
    first = ask("It is there.")
    ask("Fine.", previous_response_id=first["id"], input="Thanks.")
    assert [one.strip() for one in turns()] == ["Read it.", "It is there.", "Thanks."]


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The application with a template that opens the reasoning."""
    path = tmp_path_factory.mktemp("template") / "thinking.jinja"
    opens = "if enable_thinking is not defined or enable_thinking"
    template = QWEN35.read_text()
    closes = "if enable_thinking is defined and enable_thinking is true"
    assert template.count(closes) == 1
    path.write_text(template.replace(closes, opens))
    return Application("qwen3", path)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["", "I read it.\n\n"])
def test_thoughts_are_as_the_client_carries_them(
    thinking: Application, text: str, stream: bool
) -> None:
    said = f"I look.\n</think>\n\n{text}{READ}"
    first = ask(said, served=thinking, stream=stream)
    assert first["output"][0]["type"] == "reasoning"
    name = {"previous_response_id": first["id"]}
    second = ask(said, served=thinking, input=result(first), **name)
    stored = thinking.history
    assert stored.count("I look.") == 1
    items = [{"role": "user", "content": ASK["input"]}, *first["output"]]
    items += result(first)
    ask("Fine.", served=thinking, input=items)
    assert thinking.history == stored
    name = {"previous_response_id": second["id"]}
    ask("Fine.", served=thinking, input=result(second), **name)
    assert thinking.history.count("I look.") == 2
