# SPDX-License-Identifier: Apache-2.0
"""The deltas of the Qwen parser are vLLM's own ones on the wire, byte for byte."""

from typing import Any

import pytest

from harness import call

WAYS: list[dict[str, Any]] = [
    {},
    {"exclude_unset": True},
    {"exclude_none": True},
    {"exclude_unset": True, "exclude_none": True},
]


def _deltas() -> list[Any]:
    from vllm.parser.qwen_tool_deltas import QwenDeltaStream

    schema = {"properties": {"path": {"type": "string"}}}
    stream = QwenDeltaStream(
        {"read": schema}, lambda name: "id", reasoning=True, think_tags=True
    )
    output = "Hm, well.</think>Let me look:\n" + call("read", ("path", "/a b"))
    return [*(one for piece in output for one in stream.feed(piece)), *stream.finish()]


def _chunk(delta: Any, finish_reason: str | None) -> Any:
    from vllm.entrypoints.openai.chat_completion import protocol

    choice = protocol.ChatCompletionResponseStreamChoice(
        index=0, delta=delta, logprobs=None, finish_reason=finish_reason
    )
    return protocol.ChatCompletionStreamResponse(
        id="i", created=1, model="m", choices=[choice]
    )


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_json(way: dict[str, Any]) -> None:
    from vllm.parser.qwen_tool_deltas import DeltaMessage

    deltas = _deltas()
    assert {tuple(delta.model_fields_set) for delta in deltas} == {
        ("reasoning",),
        ("content",),
        ("tool_calls",),
    }
    for delta in deltas:
        plain = DeltaMessage.model_validate(delta.model_dump(exclude_unset=True))
        assert delta.model_dump_json(**way) == plain.model_dump_json(**way)
        for finish_reason in (None, "tool_calls"):
            ours, theirs = (_chunk(one, finish_reason) for one in (delta, plain))
            assert ours.model_dump_json(**way) == theirs.model_dump_json(**way)
