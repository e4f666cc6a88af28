# SPDX-License-Identifier: Apache-2.0
"""Proof of text-chunks-chat: a chat stream makes few models, and its bytes are
theirs.
"""

from typing import Any

import pytest

from chunks import differences, models_made

SERVING = "vllm.entrypoints.openai.chat_completion.serving"
USAGE = {"include_usage": True}


def test_few_models(monkeypatch: pytest.MonkeyPatch) -> None:
    made = models_made(monkeypatch, SERVING, "ChatCompletionStreamResponse", "chat")
    assert made < 30


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream_options": USAGE},
        {"stream_options": USAGE | {"continuous_usage_stats": True}},
        {"return_token_ids": True},
        {"include_reasoning": False},
        {"parallel_tool_calls": False},
    ],
    ids=repr,
)
def test_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    from vllm.entrypoints.text_chunks import TextChunks

    def __init__(self: Any, make_chunk: Any) -> None:
        self.delta_cls, self.chunk = None, lambda index, delta: None

    assert differences(monkeypatch, TextChunks, __init__, "chat", **fields) == []
