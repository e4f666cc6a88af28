# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""A step's deltas, one kind each, where serving expects a single delta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import PrivateAttr

from vllm.entrypoints.openai.engine.protocol import DeltaMessage
from vllm.parser.qwen_tool_deltas import merge_deltas


class DeltaSequence(DeltaMessage):
    """All that a step delivers, merged, and its parts in their order."""

    _parts: list[DeltaMessage] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, deltas: Sequence[DeltaMessage]) -> DeltaMessage | None:
        """One delta for *deltas*; ``None`` for none."""
        if len(deltas) < 2:
            return deltas[0] if deltas else None
        copies = [delta.model_copy(deep=True) for delta in deltas]
        merged = merge_deltas(copies) or DeltaMessage()
        sequence = cls(**{key: getattr(merged, key) for key in merged.model_fields_set})
        sequence._parts = list(deltas)
        return sequence

    @property
    def parts(self) -> list[DeltaMessage]:
        return self._parts


def one_kind_chunks(chunk: Any) -> Iterator[Any]:
    """Chunks of a chat stream for the chunk of one step, a part in each.

    What belongs to the step as a whole goes with the last one: finish and stop
    reason, token ids and log probabilities.  A part whose calls serving has
    taken out of the merged delta is left out.
    """
    choice = chunk.choices[0] if chunk.choices else None
    if choice is None or not isinstance(choice.delta, DeltaSequence):
        yield chunk
        return
    delta = choice.delta
    kept = {call.index for call in delta.tool_calls}
    parts = [
        part
        for part in delta.parts
        if not part.tool_calls or part.tool_calls[0].index in kept
    ] or [DeltaMessage()]
    for number, part in enumerate(parts):
        one = choice.model_copy()
        one.delta = part
        if number < len(parts) - 1:
            one.finish_reason = None
            one.__pydantic_fields_set__.discard("stop_reason")
            one.logprobs = None
            one.__pydantic_fields_set__.discard("token_ids")
        yield chunk.model_copy(update={"choices": [one]})
