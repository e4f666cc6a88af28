# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas: /v1/chat/completions/derender sends what one step holds in deltas of one kind, in order (D2)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from conformance import tokens
from conformance.host.engine import MODEL, build

CALL = "<tool_call>\n<function=read>\n<parameter=path>\n{}\n</parameter>\n</function>\n</tool_call>"
SAID = "I look.\n</think>\n\nBoth files:\n" + CALL.format("/a") + "\n" + CALL.format("/b")
TOOL = {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
REQUEST = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "go"}],
    "tools": [{"type": "function", "function": TOOL}],
    "stream": True,
}


async def deltas(width: int) -> list[dict[str, Any]]:
    """The deltas of an output that comes in steps of ``width`` tokens."""
    app = await build(str(tokens.model_folder()), "qwen3", ["--enable-scale-out"])
    tokenizer = tokens.load()
    prompt = tokens.encode(tokenizer, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n")
    said = tokens.encode(tokenizer, SAID)
    steps = [said[at : at + width] for at in range(0, len(said), width)]
    state, found = None, []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tree") as client:
        for step in steps:
            choice = {"index": 0, "token_ids": step, "finish_reason": "stop" if step is steps[-1] else None}
            body = {
                "stream": True,
                "model": MODEL,
                "generate_chunk": {"request_id": "r", "choices": [choice]},
                "stream_state": state,
                "prompt_token_ids": prompt,
                "chat_request": REQUEST,
            }
            answer = await client.post("/v1/chat/completions/derender", json=body)
            assert answer.status_code == 200, answer.text
            state = answer.json()["stream_state"]
            found += [choice["delta"] for choice in answer.json()["chunk"]["choices"]]
    return found


@pytest.mark.parametrize("width", [1, 4, 16, 1000])
def test_one_kind_a_delta_in_order(width: int) -> None:
    read: list[list[str]] = []
    for delta in asyncio.run(deltas(width)):
        parts = [(kind, delta[kind]) for kind in ("reasoning", "content") if delta.get(kind)]
        parts += [
            (f"call {call['index']}", call["function"].get("arguments") or "")
            for call in delta.get("tool_calls") or []
        ]
        assert len(parts) <= 1, delta
        for kind, text in parts:
            if not read or read[-1][0] != kind:
                read.append([kind, ""])
            read[-1][1] += text
    assert [kind for kind, _ in read] == ["reasoning", "content", "call 0", "call 1"]
    assert [json.loads(text) for _, text in read[2:]] == [{"path": "/a"}, {"path": "/b"}]
    assert read[1][1].strip() == "Both files:"
