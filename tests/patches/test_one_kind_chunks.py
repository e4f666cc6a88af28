# SPDX-License-Identifier: Apache-2.0
"""Proof of one-kind-chunks: no delta of a chat stream mixes kinds, whatever a step
holds (D2, D10).
"""

import pytest

from harness import MIXED, MIXED_READ, THINKING, WIDTHS, answer, chat_deltas


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    for delta in chat_deltas(MIXED, width, **THINKING):
        assert len(delta) == 1
        assert len(delta.get("tool_calls") or [{}]) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_text_after_the_calls(width: int) -> None:
    assert answer(MIXED, width, **THINKING) == MIXED_READ


def test_one_call_only_where_the_request_says_so() -> None:
    found = answer(MIXED, 100_000, parallel_tool_calls=False, **THINKING)
    reasoning, content, calls = MIXED_READ
    assert found == (reasoning, content, calls[:1])
