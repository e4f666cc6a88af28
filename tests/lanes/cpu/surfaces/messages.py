# SPDX-License-Identifier: Apache-2.0
"""``/v1/messages`` through the ``anthropic`` package."""

from __future__ import annotations

import json
from typing import Any

from cpu.surfaces.common import Ask, Clients, Got
from cpu.transcripts import Transcript, tool_schemas

#: The protocol demands a limit; more than any transcript needs.
_MAX_TOKENS = 2000
_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


def user(text: str) -> list[dict[str, Any]]:
    """A first turn."""
    return [{"role": "user", "content": text}]


def results(got: Got, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """What follows a first turn's history: the answer as it came, and the tools' results."""
    blocks = [
        {"type": "tool_result", "tool_use_id": id, "content": text}
        for id, text in zip(got.call_ids, texts, strict=False)
    ]
    return [*got.history, {"role": "user", "content": blocks}]


async def ask(clients: Clients, request: Ask) -> Got:
    """Send one request and assemble the answer."""
    arguments = _arguments(clients, request)
    if not request.streamed:
        return _whole(await clients.anthropic.messages.create(**arguments))
    assembled = _Assembled()
    async for event in await clients.anthropic.messages.create(
        **arguments, stream=True
    ):
        assembled.add(event)
    return assembled.end()


def _arguments(clients: Clients, request: Ask) -> dict[str, Any]:
    transcript = request.transcript
    named: dict[str, Any] = {
        "model": clients.model,
        "messages": request.history,
        "max_tokens": request.max_tokens or _MAX_TOKENS,
        "extra_body": {
            "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": transcript.thinking},
        },
    }
    if transcript.tools:
        schemas = tool_schemas(transcript.tools)
        named["tools"] = [
            {"name": name, "input_schema": schemas[name]} for name in schemas
        ]
        named["tool_choice"] = _tool_choice(transcript)
    return named


def _tool_choice(transcript: Transcript) -> dict[str, str]:
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    if transcript.tool_choice in kinds:
        return {"type": kinds[transcript.tool_choice]}
    return {"type": "tool", "name": transcript.tool_choice}


def _whole(message: Any) -> Got:
    got = Got(
        id=message.id, finish=_FINISH.get(message.stop_reason, str(message.stop_reason))
    )
    got.output_tokens = message.usage.output_tokens
    blocks: list[dict[str, Any]] = []
    for block in message.content:
        if block.type == "thinking":
            got.reasoning += block.thinking
        elif block.type == "text":
            got.content += block.text
            blocks.append({"type": "text", "text": block.text})
        elif block.type == "tool_use":
            got.names.append(block.name)
            got.arguments.append(json.dumps(block.input, ensure_ascii=False))
            got.call_ids.append(block.id)
            blocks.append(
                {
                    "type": "tool_use",
                    "id": block.id,
                    "name": block.name,
                    "input": block.input,
                }
            )
        else:
            got.broken.append(f"a block of type {block.type}")
    got.history = [{"role": "assistant", "content": blocks}]
    return got


class _Assembled:
    """Puts the events together and watches that blocks open and close one after the other."""

    def __init__(self) -> None:
        self.got = Got()
        self.blocks: list[dict[str, Any]] = []
        self.open_block: int | None = None

    def add(self, event: Any) -> None:
        got = self.got
        if event.type == "message_start":
            got.id = event.message.id
        elif event.type == "content_block_start":
            self._start(event)
        elif event.type == "content_block_delta":
            self._delta(event)
        elif event.type == "content_block_stop":
            if self.open_block != event.index:
                got.broken.append("a block ends that is not open")
            self.open_block = None
        elif event.type == "message_delta":
            got.finish = _FINISH.get(
                event.delta.stop_reason, str(event.delta.stop_reason)
            )
            got.output_tokens = event.usage.output_tokens
        elif event.type == "error":
            got.broken.append(f"error event: {event}")

    def end(self) -> Got:
        got = self.got
        if not got.finish:
            got.broken.append("no stop reason")
        for block in self.blocks:
            if block["type"] == "tool_use":
                block["input"] = _input(block.pop("json"))
        got.history = [
            {
                "role": "assistant",
                "content": [b for b in self.blocks if b["type"] != "thinking"],
            }
        ]
        return got

    def _start(self, event: Any) -> None:
        got = self.got
        if self.open_block is not None:
            got.broken.append("a block begins while another is open")
        if event.index != len(self.blocks):
            got.broken.append(
                f"block index {event.index} after {len(self.blocks)} blocks"
            )
        self.open_block = event.index
        block = event.content_block
        if block.type == "tool_use":
            got.names.append(block.name)
            got.arguments.append("")
            got.call_ids.append(block.id)
            self.blocks.append(
                {"type": "tool_use", "id": block.id, "name": block.name, "json": ""}
            )
        elif block.type == "thinking":
            got.reasoning += block.thinking or ""
            self.blocks.append({"type": "thinking"})
        else:
            got.content += block.text or ""
            self.blocks.append({"type": "text", "text": block.text or ""})

    def _delta(self, event: Any) -> None:
        got = self.got
        if self.open_block != event.index or event.index >= len(self.blocks):
            got.broken.append("a delta outside its block")
            return
        block, delta = self.blocks[event.index], event.delta
        wanted = {
            "text_delta": "text",
            "thinking_delta": "thinking",
            "input_json_delta": "tool_use",
        }.get(delta.type)
        if wanted is None:
            return
        if wanted != block["type"]:
            got.broken.append(f"a {delta.type} inside a {block['type']} block")
        if wanted == "text":
            got.content += delta.text
            block["text"] = block.get("text", "") + delta.text
        elif wanted == "thinking":
            got.reasoning += delta.thinking
        elif got.arguments:
            got.arguments[-1] += delta.partial_json
            block["json"] = block.get("json", "") + delta.partial_json


def _input(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
