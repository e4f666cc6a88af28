# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas: one kind a delta, in the output's order, at every width
(D2, D10).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from application import application
from harness import WIDTHS, call
from old_harness import chat_choices, events

PREFACE = "Two calls:\n\n"
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
AFTER = "\nDone."


def kinds(choices: list[dict[str, Any]]) -> list[str]:
    """The kind of each delta that has one; a mixture shows as two names."""
    found: list[str] = []
    for choice in choices:
        delta = choice["delta"]
        kind = "+".join(
            name for name in ("reasoning", "content", "tool_calls") if delta.get(name)
        )
        if kind and (not found or found[-1] != kind):
            found.append(kind)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    text = "Hm.</think>" + PREFACE + CALLS + AFTER
    choices = chat_choices(text, width, reasoning="qwen3", prompt="open")
    assert kinds(choices) == ["reasoning", "content", "tool_calls", "content"]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert content == "Two calls:\n\nDone."
    arguments = ["", ""]
    for choice in choices:
        for part in choice["delta"].get("tool_calls") or ():
            arguments[part["index"]] += part["function"].get("arguments") or ""
    assert list(map(json.loads, arguments)) == [{"path": "/a"}, {"path": "/b"}]
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert all({"finish_reason", "logprobs"} <= choice.keys() for choice in choices[1:])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("after", ["", AFTER])
def test_responses(width: int, after: str) -> None:
    items = [
        event["item"]
        for event in events(PREFACE + CALLS + after, width, surface="responses")
        if event["type"] == "response.output_item.done"
    ]
    messages = ["message", "message"] if after else ["message"]
    assert [item["type"] for item in items] == [
        messages[0],
        "function_call",
        "function_call",
        *messages[1:],
    ]
    assert [item["name"] for item in items[1:3]] == ["read", "read"]
    assert [json.loads(item["arguments"]) for item in items[1:3]] == [
        {"path": "/a"},
        {"path": "/b"},
    ]


@pytest.mark.parametrize("width", [1, 1000])
def test_usage_of_every_chunk(width: int) -> None:
    """A chunk counts as the step's last one does, whichever of the step's deltas it
    carries.
    """
    text = "Hm.</think>" + PREFACE + CALLS + AFTER
    tool = {
        "type": "function",
        "function": {"name": "read", "parameters": {"type": "object"}},
    }
    body = {
        "messages": [{"role": "user", "content": "go"}],
        "tools": [tool],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    status, answer = application().post(
        "/v1/chat/completions",
        body,
        *(text[at : at + width] for at in range(0, len(text), width)),
    )
    assert status == 200, answer
    usages = [
        json.loads(line[6:])["usage"]
        for line in answer.splitlines()
        if line.startswith("data: {")
    ]
    counted = [usage["completion_tokens"] for usage in usages]
    assert counted == sorted(counted)
    assert len({"completion_tokens_details" in usage for usage in usages}) == 1
    if width == 1000:  # the role, five deltas of the step, the end of it, the total
        assert len([count for count in counted if count]) >= 6
