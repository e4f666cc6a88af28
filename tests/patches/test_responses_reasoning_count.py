# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-reasoning-count: the usage of /v1/responses tells the tokens before the reasoning's end."""

from __future__ import annotations

import pytest
from serving import response_usage

from harness import WIDTHS, call, steps

CALL = call("read", ("path", "/a"))


@pytest.mark.parametrize("width", [None, *WIDTHS])
@pytest.mark.parametrize(
    "thought", ["So it is.\n", "The tag <tool_call> begins a call.\n"]
)
def test_usage(thought: str, width: int | None) -> None:
    wanted = sum(len(ids) for _, ids in steps(thought, 1))
    usage = response_usage(thought + "</think>\n\n" + CALL, width)
    assert usage["output_tokens_details"]["reasoning_tokens"] == wanted
