# SPDX-License-Identifier: Apache-2.0
"""Proof of linear-counting: no step of a chat stream copies the token ids before it."""

from collections.abc import Sequence
from typing import Any

import pytest

from harness import application, raw, script

PROSE = "some words of an answer " * 40


USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


@pytest.mark.parametrize("fields", [{}, USAGE], ids=["plain", "usage"])
@pytest.mark.parametrize("reasoning", ["none", "qwen3"])
def test_no_copies(
    monkeypatch: pytest.MonkeyPatch, reasoning: str, fields: dict[str, Any]
) -> None:
    asked: list[Sequence[int]] = []  # kept, so that no two have one identity
    service = application(reasoning, "qwen3_coder").state.openai_serving_chat
    before: Any = service.parser_cls

    def count(self: Any, token_ids: Sequence[int]) -> int:
        asked.append(token_ids)
        counted: int = before.count_reasoning_tokens(self, token_ids)
        return counted

    monkeypatch.setattr(
        service,
        "parser_cls",
        type("Asked", (before,), {"count_reasoning_tokens": count}),
    )
    status, answer = raw(PROSE, 4, reasoning=reasoning, tools=[], **fields)
    assert status == 200
    assert b"words" in answer
    assert len({id(ids) for ids in asked}) <= 1
    # A release that asks at all has counted the whole output in the end.
    bursts = script(PROSE, 4).bursts
    assert len(bursts) > 20
    assert all(len(ids) == sum(len(some) for _, some in bursts) for ids in asked)
