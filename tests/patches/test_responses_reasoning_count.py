# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-reasoning-count: the usage of /v1/responses tells the tokens
before the reasoning's end.
"""

import pytest

from harness import WIDTHS, call, ids, response

CALL = call("read", ("path", "/a"))


@pytest.mark.parametrize("width", [None, *WIDTHS])
@pytest.mark.parametrize(
    "thought", ["So it is.\n", "The tag <tool_call> begins a call.\n"]
)
def test_usage(thought: str, width: int | None) -> None:
    wanted = len(ids(thought))
    text = thought + "</think>\n\n" + CALL
    usage = response(text, width, reasoning="qwen3", prompt="open")["usage"]
    assert usage["output_tokens_details"]["reasoning_tokens"] == wanted
