# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: tool_choice allowed_tools of /v1/responses, where stock
does not stream, or has text for the calls in the final response.
"""

import json
from typing import Any

import pytest

from harness import THINKING, call, response

CHOICE = {
    "type": "allowed_tools",
    "mode": "auto",
    "tools": [{"type": "function", "name": "read"}],
}
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


@pytest.mark.parametrize("width", [None, 1, 3, 100_000])
@pytest.mark.parametrize("thinking", [True, False])
def test_calls(thinking: bool, width: int | None) -> None:
    asked: Any = {"tool_choice": CHOICE, "store": False}
    asked |= THINKING if thinking else {}
    text = "</think>\n\n" + CALLS if thinking else CALLS
    output = response(text, width, **asked)["output"]
    calls = [item for item in output if item["type"] == "function_call"]
    assert [(one["name"], json.loads(one["arguments"])) for one in calls] == [
        ("read", {"path": "/a"}),
        ("read", {"path": "/b"}),
    ]


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_a_call_of_a_tool_that_is_left_out(width: int | None) -> None:
    text = call("write", ("path", "/a"), ("content", "x"))
    output = response(text, width, tool_choice=CHOICE, store=False)["output"]
    assert [item["type"] for item in output] == ["message"]
    assert output[0]["content"][0]["text"] == text
