# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: tool_choice allowed_tools of /v1/responses, where stock
does not stream, loses the calls.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness import THINKING, arguments, ask, call

CHOICE = {
    "type": "allowed_tools",
    "mode": "auto",
    "tools": [{"type": "function", "name": "read"}],
}
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


@pytest.mark.parametrize("width", [None, 1, 3, 100_000])
def test_calls(width: int | None) -> None:
    options: Any = {"surface": "responses", "tool_choice": CHOICE, "store": False}
    reading = ask("</think>\n\n" + CALLS, width, **options, **THINKING)
    assert arguments(reading) == [("read", {"path": "/a"}), ("read", {"path": "/b"})]
