# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: tool_choice allowed_tools of /v1/responses, where stock
does not stream, loses the calls.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from application import application

CALL = "<tool_call>\n<function=read>\n<parameter=path>\n{}\n</parameter>\n</function>\n</tool_call>"
TOOL = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
WANTED = [("read", {"path": "/a"}), ("read", {"path": "/b"})]


def body(**fields: Any) -> dict[str, Any]:
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "read"}],
    }
    return {
        "input": "go",
        "tools": [TOOL],
        "tool_choice": choice,
        "store": False,
        **fields,
    }


def calls(items: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [
        (item["name"], json.loads(item["arguments"]))
        for item in items
        if item["type"] == "function_call"
    ]


SAID = "</think>\n\n" + CALL.format("/a") + "\n" + CALL.format("/b")


def test_not_streamed() -> None:
    assert calls(application().json("/v1/responses", body(), SAID)["output"]) == WANTED


@pytest.mark.parametrize("width", [1, 3, 6, 16, 1000])
def test_streamed(width: int) -> None:
    steps = [SAID[at : at + width] for at in range(0, len(SAID), width)]
    status, answer = application().post("/v1/responses", body(stream=True), *steps)
    assert status == 200, answer
    events = [
        json.loads(line[6:])
        for line in answer.splitlines()
        if line.startswith("data: {")
    ]
    assert events[-1]["type"] == "response.completed", events[-1]
    assert calls(events[-1]["response"]["output"]) == WANTED
