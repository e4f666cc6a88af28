# SPDX-License-Identifier: Apache-2.0
"""Proof of text-chunks-messages: a stream of /v1/messages makes few models, and its
bytes are theirs.
"""

from typing import Any

import pytest

from chunks import differences, models_made

SERVING = "vllm.entrypoints.anthropic.serving"


def test_few_models(monkeypatch: pytest.MonkeyPatch) -> None:
    made = models_made(monkeypatch, SERVING, "AnthropicStreamEvent", "messages")
    assert made < 40


def test_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.entrypoints.anthropic import protocol, serving
    from vllm.entrypoints.text_chunks import MARK, TextChunks

    def __init__(self: Any, make_chunk: Any) -> None:
        self.delta_cls, self.chunk = None, lambda index, delta: None

    class Slow(serving.Frame):  # type: ignore[misc]
        def write(self, text: str) -> str:
            event = self.head.partition("data: ")[2] + f'"{MARK}"' + self.tail
            made = protocol.AnthropicStreamEvent.model_validate_json(event)
            for field in ("text", "thinking", "partial_json"):
                if getattr(made.delta, field) == MARK:
                    setattr(made.delta, field, text)
            data = made.model_dump_json(exclude_unset=True)
            frame: str = serving.wrap_data_with_event(data, "content_block_delta")
            return frame

    def frame_of(example: str) -> Any:
        return Slow(*example.split(f'"{MARK}"'))

    mine = differences(monkeypatch, TextChunks, __init__, "messages")
    assert mine == []
    assert differences(monkeypatch, serving, frame_of, "messages") == []
