# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-blocks: a block of ``/v1/messages`` holds its own text alone,
and all of it (E8).
"""

from __future__ import annotations

import pytest

from harness import THINKING, WIDTHS, answer, call

OUTPUT = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("write", ("content", "x\n"))
    + "\nThen."
)


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_messages(width: int | None) -> None:
    calls = [("read", {"path": "/a"}), ("write", {"content": "x\n"})]
    found = answer(OUTPUT, width, surface="messages", **THINKING)
    assert found == ("Hm.", "First.\nThen.", calls)
