# SPDX-License-Identifier: Apache-2.0
"""Proof of one-kind-chunks: no delta of a chat stream mixes kinds, whatever a step
holds (D2, D10).
"""

from __future__ import annotations

import pytest

from harness import WIDTHS, arguments, ask, call, chat_deltas

OUTPUT = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("read", ("path", "/b"))
    + "\nThen."
)


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    for delta in chat_deltas(OUTPUT, width, reasoning="qwen3", prompt="open"):
        assert len(delta) == 1
        assert len(delta.get("tool_calls") or [{}]) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_text_after_the_calls(width: int) -> None:
    reading = ask(OUTPUT, width, reasoning="qwen3", prompt="open")
    assert arguments(reading) == [("read", {"path": "/a"}), ("read", {"path": "/b"})]
    assert (reading.reasoning, reading.content) == ("Hm.", "First.\nThen.")


def test_one_call_only_where_the_request_says_so() -> None:
    reading = ask(
        OUTPUT, 100_000, reasoning="qwen3", prompt="open", parallel_tool_calls=False
    )
    assert arguments(reading) == [("read", {"path": "/a"})]
    assert reading.content == "First.\nThen."
