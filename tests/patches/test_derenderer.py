# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas: a chunk of /v1/chat/completions/derender has one choice, with all that the step holds (D2)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from conformance import tokens
from conformance.host.engine import MODEL, build

CALL = "<tool_call>\n<function=read>\n<parameter=path>\n{}\n</parameter>\n</function>\n</tool_call>"
SAID = (
    "I look.\n</think>\n\nBoth files:\n" + CALL.format("/a") + "\n" + CALL.format("/b")
)
TOOL = {
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
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
    prompt = tokens.encode(
        tokenizer, "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )
    said = tokens.encode(tokenizer, SAID)
    steps = [said[at : at + width] for at in range(0, len(said), width)]
    state, found = None, []
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://tree"
    ) as client:
        for step in steps:
            choice = {
                "index": 0,
                "token_ids": step,
                "finish_reason": "stop" if step is steps[-1] else None,
            }
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
            # Clients take the choices of a chunk for different answers.
            (only,) = answer.json()["chunk"]["choices"]
            found.append(only["delta"])
    return found


@pytest.mark.parametrize("width", [1, 4, 16, 1000])
def test_one_choice_a_chunk(width: int) -> None:
    read: dict[str, str] = {}
    for delta in asyncio.run(deltas(width)):
        for kind in ("reasoning", "content"):
            read[kind] = read.get(kind, "") + (delta.get(kind) or "")
        for call in delta.get("tool_calls") or []:
            kind = f"call {call['index']}"
            read[kind] = read.get(kind, "") + (call["function"].get("arguments") or "")
    assert read["reasoning"].strip() == "I look."
    assert read["content"].strip() == "Both files:"
    assert [json.loads(read[f"call {n}"]) for n in (0, 1)] == [
        {"path": "/a"},
        {"path": "/b"},
    ]
