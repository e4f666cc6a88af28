# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Content block events of ``/v1/messages``, from the deltas of a chat stream.

Each block (thinking, text, tool use) starts, is filled and stops before the
next one starts.
"""

from __future__ import annotations

import uuid

from vllm.entrypoints.anthropic.protocol import (
    AnthropicContentBlock,
    AnthropicDelta,
    AnthropicStreamEvent,
)
from vllm.entrypoints.openai.engine.protocol import DeltaMessage


class BlockEvents:
    """Turns deltas into events, in their order."""

    def __init__(self) -> None:
        self._index = -1
        self._open: str | int | None = None  # a call by its index

    def of(self, delta: DeltaMessage) -> list[AnthropicStreamEvent]:
        """Events of one delta."""
        events: list[AnthropicStreamEvent] = []
        if delta.reasoning:
            block = AnthropicContentBlock(type="thinking", thinking="")
            self._start("thinking", block, events)
            self._fill(
                AnthropicDelta(type="thinking_delta", thinking=delta.reasoning), events
            )
        if delta.content:
            self._start("text", AnthropicContentBlock(type="text", text=""), events)
            self._fill(AnthropicDelta(type="text_delta", text=delta.content), events)
        for call in delta.tool_calls:
            if call.id is not None:
                block = AnthropicContentBlock(
                    type="tool_use",
                    id=call.id,
                    name=call.function.name if call.function else None,
                    input={},
                )
                self._start(call.index, block, events)
            if call.function and call.function.arguments and self._open == call.index:
                self._fill(
                    AnthropicDelta(
                        type="input_json_delta",
                        partial_json=call.function.arguments,
                    ),
                    events,
                )
        return events

    def stop(self) -> list[AnthropicStreamEvent]:
        """Events that complete the open block."""
        if self._open is None:
            return []
        events: list[AnthropicStreamEvent] = []
        if self._open == "thinking":
            signature = uuid.uuid4().hex
            self._fill(
                AnthropicDelta(type="signature_delta", signature=signature), events
            )
        self._open = None
        events.append(
            AnthropicStreamEvent(type="content_block_stop", index=self._index)
        )
        return events

    def _start(
        self,
        kind: str | int,
        block: AnthropicContentBlock,
        events: list[AnthropicStreamEvent],
    ) -> None:
        if self._open == kind:
            return
        events += self.stop()
        self._open = kind
        self._index += 1
        events.append(
            AnthropicStreamEvent(
                type="content_block_start", index=self._index, content_block=block
            )
        )

    def _fill(self, delta: AnthropicDelta, events: list[AnthropicStreamEvent]) -> None:
        events.append(
            AnthropicStreamEvent(
                type="content_block_delta", index=self._index, delta=delta
            )
        )
