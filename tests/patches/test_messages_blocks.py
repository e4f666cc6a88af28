# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-blocks: a block of ``/v1/messages`` holds its own text alone,
and all of it (E8).
"""

from __future__ import annotations

import pytest

from harness import WIDTHS, arguments, ask, call

OUTPUT = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("write", ("content", "x\n"))
    + "\nThen."
)


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_messages(width: int | None) -> None:
    reading = ask(OUTPUT, width, surface="messages", reasoning="qwen3", prompt="open")
    assert arguments(reading) == [
        ("read", {"path": "/a"}),
        ("write", {"content": "x\n"}),
    ]
    assert (reading.reasoning, reading.content) == ("Hm.", "First.\nThen.")
