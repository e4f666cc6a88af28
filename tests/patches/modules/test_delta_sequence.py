# SPDX-License-Identifier: Apache-2.0
"""A step's deltas keep their order where serving takes one delta (D2, D10)."""

from __future__ import annotations

from typing import Any


def _deltas() -> list[Any]:
    from vllm.entrypoints.openai.engine.protocol import (
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
    )

    function = DeltaFunctionCall(name="f", arguments="{")
    return [
        DeltaMessage(reasoning="r"),
        DeltaMessage(content="c"),
        DeltaMessage(
            tool_calls=[
                DeltaToolCall(index=0, id="i", type="function", function=function)
            ]
        ),
        DeltaMessage(
            tool_calls=[
                DeltaToolCall(index=0, function=DeltaFunctionCall(arguments="}"))
            ]
        ),
        DeltaMessage(content="d"),
    ]


def _chunk(delta: Any, **fields: Any) -> Any:
    from vllm.entrypoints.openai.chat_completion import protocol

    choice = protocol.ChatCompletionResponseStreamChoice(
        index=0, delta=delta, logprobs=None, **fields
    )
    return protocol.ChatCompletionStreamResponse(model="m", choices=[choice])


def test_merged_and_parts() -> None:
    from vllm.parser.delta_sequence import DeltaSequence

    merged = DeltaSequence.of(_deltas())
    assert merged is not None
    assert (
        merged.reasoning,
        merged.content,
        merged.tool_calls[0].function.arguments,
    ) == ("r", "cd", "{}")
    assert merged.parts == _deltas()
    assert DeltaSequence.of([]) is None
    assert type(DeltaSequence.of(_deltas()[:1])) is not DeltaSequence


def test_chunks() -> None:
    from vllm.parser.delta_sequence import DeltaSequence, one_kind_chunks

    chunk = _chunk(DeltaSequence.of(_deltas()), finish_reason="stop", stop_reason="x")
    found = [one.choices[0] for one in one_kind_chunks(chunk)]
    assert [one.delta for one in found] == _deltas()
    assert [one.finish_reason for one in found] == [None] * 4 + ["stop"]
    assert ["stop_reason" in one.model_dump(exclude_unset=True) for one in found] == [
        False
    ] * 4 + [True]


def test_calls_that_serving_took_out() -> None:
    from vllm.parser.delta_sequence import DeltaSequence, one_kind_chunks

    delta = DeltaSequence.of(_deltas())
    assert delta is not None
    delta.tool_calls = []
    found = [one.choices[0].delta for one in one_kind_chunks(_chunk(delta))]
    assert found == [one for one in _deltas() if not one.tool_calls]


def test_single_delta_passes() -> None:
    from vllm.parser.delta_sequence import one_kind_chunks

    chunk = _chunk(_deltas()[0])
    assert list(one_kind_chunks(chunk)) == [chunk]
