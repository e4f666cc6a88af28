# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: tool_choice allowed_tools of /v1/responses, where stock
does not stream, or has text for the calls in the final response.
"""

import json
from typing import Any

import pytest

from harness import THINKING, call, events, raw

CHOICE = {
    "type": "allowed_tools",
    "mode": "auto",
    "tools": [{"type": "function", "name": "read"}],
}
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


@pytest.mark.parametrize("width", [None, 1, 3, 100_000])
@pytest.mark.parametrize("thinking", [True, False])
def test_calls(thinking: bool, width: int | None) -> None:
    asked: Any = {"surface": "responses", "tool_choice": CHOICE, "store": False}
    asked |= THINKING if thinking else {}
    text = "</think>\n\n" + CALLS if thinking else CALLS
    if width is None:
        response = json.loads(raw(text, **asked)[1])
    else:
        last = events(text, width, **asked)[-1]
        assert last["type"] == "response.completed"
        response = last["response"]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert [(one["name"], json.loads(one["arguments"])) for one in calls] == [
        ("read", {"path": "/a"}),
        ("read", {"path": "/b"}),
    ]
