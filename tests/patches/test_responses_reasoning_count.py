# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-reasoning-count: the usage of /v1/responses tells the tokens
before the reasoning's end.
"""

import json
from typing import Any

import pytest

from harness import WIDTHS, call, events, ids, raw

CALL = call("read", ("path", "/a"))


@pytest.mark.parametrize("width", [None, *WIDTHS])
@pytest.mark.parametrize(
    "thought", ["So it is.\n", "The tag <tool_call> begins a call.\n"]
)
def test_usage(thought: str, width: int | None) -> None:
    wanted = len(ids(thought))
    text = thought + "</think>\n\n" + CALL
    asked: dict[str, Any] = {"surface": "responses", "reasoning": "qwen3"}
    asked["prompt"] = "open"
    if width is None:
        response = json.loads(raw(text, **asked)[1])
    else:
        *_, last = events(text, width, **asked)
        response = last["response"]
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == wanted
