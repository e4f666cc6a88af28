# SPDX-License-Identifier: Apache-2.0
"""Proof of one-kind-chunks: no delta of a chat stream mixes kinds, whatever a step
holds (D2, D10).
"""

import pytest

from harness import THINKING, WIDTHS, answer, call, chat_deltas

CALLS = [("read", {"path": "/a"}), ("read", {"path": "/b"})]

OUTPUT = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("read", ("path", "/b"))
    + "\nThen."
)


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    for delta in chat_deltas(OUTPUT, width, **THINKING):
        assert len(delta) == 1
        assert len(delta.get("tool_calls") or [{}]) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_text_after_the_calls(width: int) -> None:
    assert answer(OUTPUT, width, **THINKING) == ("Hm.", "First.\nThen.", CALLS)


def test_one_call_only_where_the_request_says_so() -> None:
    found = answer(OUTPUT, 100_000, parallel_tool_calls=False, **THINKING)
    assert found == ("Hm.", "First.\nThen.", CALLS[:1])
