# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas: one kind a delta, in the output's order, at every width (D2, D10)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from harness import WIDTHS, call
from serving import chat_chunks, response_events

PREFACE = "Two calls:\n\n"
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
AFTER = "\nDone."


def kinds(choices: list[dict[str, Any]]) -> list[str]:
    """The kind of each delta that has one; a mixture shows as two names."""
    found = []
    for choice in choices:
        delta = choice["delta"]
        kind = "+".join(name for name in ("reasoning", "content", "tool_calls") if delta.get(name))
        if kind and (not found or found[-1] != kind):
            found.append(kind)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    choices = chat_chunks("Hm.</think>" + PREFACE + CALLS + AFTER, width, reasoning=True)
    assert kinds(choices) == ["reasoning", "content", "tool_calls", "content"]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert content == "Two calls:\n\nDone."
    arguments = ["", ""]
    for choice in choices:
        for part in choice["delta"].get("tool_calls") or ():
            arguments[part["index"]] += part["function"].get("arguments") or ""
    assert list(map(json.loads, arguments)) == [{"path": "/a"}, {"path": "/b"}]
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("after", ["", AFTER])
def test_responses(width: int, after: str) -> None:
    events = response_events(PREFACE + CALLS + after, width)
    items = [event.item for event in events if event.type == "response.output_item.done"]
    messages = ["message", "message"] if after else ["message"]
    assert [item.type for item in items] == [messages[0], "function_call", "function_call", *messages[1:]]
    assert [item.name for item in items[1:3]] == ["read", "read"]
    assert [json.loads(item.arguments) for item in items[1:3]] == [{"path": "/a"}, {"path": "/b"}]
