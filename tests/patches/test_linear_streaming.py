# SPDX-License-Identifier: Apache-2.0
"""Proof of linear-streaming: no step of a chat stream copies the tokens of the steps
before it (E3).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from harness import LOOP, TOOLS, application, call, script


class CountedIds(list[int]):
    """Token ids that count what is added to them or they are added to."""

    copies = 0

    def __add__(self, other: Any) -> CountedIds:  # type: ignore[override]  # of a list of anything else
        CountedIds.copies += 1
        return CountedIds(list(self) + list(other))

    def __radd__(self, other: Any) -> CountedIds:
        CountedIds.copies += 1
        return CountedIds(list(other) + list(self))


def test_no_copies() -> None:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.engine.protocol import RequestResponseMetadata
    from vllm.outputs import CompletionOutput, RequestOutput

    serving = application("none", "qwen3_coder").state.openai_serving_chat
    fields: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": TOOLS,
    }
    request = ChatCompletionRequest(stream=True, **fields)
    bursts = script(call("write", ("content", "some text\n" * 60)), 4).bursts

    async def outputs() -> AsyncIterator[Any]:
        for number, (text, ids) in enumerate(bursts, start=1):
            finish = "stop" if number == len(bursts) else None
            one = CompletionOutput(
                0, text, CountedIds(ids), None, None, finish_reason=finish
            )
            yield RequestOutput("r", None, [1], None, [one], finish is not None)

    async def chunks() -> list[str]:
        tokenizer = serving.renderer.tokenizer
        metadata = RequestResponseMetadata(request_id="r")
        stream = serving.chat_completion_stream_generator(
            request, outputs(), "r", "m", [], tokenizer, metadata, None
        )
        return [chunk async for chunk in stream]

    CountedIds.copies = 0
    chunks_sent = LOOP.run_until_complete(asyncio.wait_for(chunks(), 60))
    assert any('"arguments"' in chunk for chunk in chunks_sent)
    assert len(bursts) > 20
    assert CountedIds.copies <= 1
