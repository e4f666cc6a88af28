# SPDX-License-Identifier: Apache-2.0
"""``/v1/chat/completions`` through the ``openai`` package."""

from __future__ import annotations

from typing import Any

from cpu.surfaces.common import Ask, Clients, Got
from cpu.transcripts import Transcript, tool_schemas


def user(text: str) -> list[dict[str, Any]]:
    """A first turn."""
    return [{"role": "user", "content": text}]


def results(got: Got, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """What follows a first turn's history: the answer as it came, and the tools' results."""
    answers = [
        {"role": "tool", "tool_call_id": id, "content": text}
        for id, text in zip(got.call_ids, texts, strict=False)
    ]
    return [*got.history, *answers]


async def ask(clients: Clients, request: Ask) -> Got:
    """Send one request and assemble the answer."""
    arguments = _arguments(clients, request)
    if not request.streamed:
        return _whole(await clients.openai.chat.completions.create(**arguments))
    arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    assembled = _Assembled()
    async for chunk in await clients.openai.chat.completions.create(**arguments):
        assembled.add(chunk)
    return assembled.end()


def _arguments(clients: Clients, request: Ask) -> dict[str, Any]:
    transcript = request.transcript
    named: dict[str, Any] = {
        "model": clients.model,
        "messages": request.history,
        "temperature": 0,
        "extra_body": {
            "chat_template_kwargs": {"enable_thinking": transcript.thinking}
        },
    }
    if transcript.tools:
        named |= {"tools": _tools(transcript), "tool_choice": _tool_choice(transcript)}
    if request.max_tokens is not None:
        named["max_completion_tokens"] = request.max_tokens
    if request.thinking_token_budget is not None:
        named["extra_body"]["thinking_token_budget"] = request.thinking_token_budget
    return named


def _tools(transcript: Transcript) -> list[dict[str, Any]]:
    schemas = tool_schemas(transcript.tools)
    return [
        {"type": "function", "function": {"name": name, "parameters": schemas[name]}}
        for name in schemas
    ]


def _tool_choice(transcript: Transcript) -> Any:
    if transcript.tool_choice in ("auto", "required", "none"):
        return transcript.tool_choice
    return {"type": "function", "function": {"name": transcript.tool_choice}}


def _whole(completion: Any) -> Got:
    choice = completion.choices[0]
    message = choice.message
    got = Got(
        id=completion.id,
        reasoning=_reasoning(message),
        content=message.content or "",
        finish=choice.finish_reason or "",
        output_tokens=completion.usage.completion_tokens if completion.usage else None,
    )
    for call in message.tool_calls or []:
        got.names.append(call.function.name)
        got.arguments.append(call.function.arguments)
        got.call_ids.append(call.id)
    got.history = _history(got)
    return got


def _reasoning(holder: Any) -> str:
    for name in ("reasoning", "reasoning_content"):
        text = getattr(holder, name, None)
        if isinstance(text, str):
            return text
    return ""


def _history(got: Got) -> list[dict[str, Any]]:
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": text}}
        for id, name, text in zip(got.call_ids, got.names, got.arguments, strict=True)
    ]
    return [{"role": "assistant", "content": got.content, "tool_calls": calls}]


class _Assembled:
    """Puts chunks together and watches the rules of the stream."""

    def __init__(self) -> None:
        self.got = Got()
        self.open_call = False
        self.finished = False

    def add(self, chunk: Any) -> None:
        got = self.got
        got.id = chunk.id
        if chunk.usage is not None:
            got.output_tokens = chunk.usage.completion_tokens
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        self._delta(choice.delta)
        if choice.finish_reason is not None:
            if self.finished:
                got.broken.append("two finish reasons")
            self.finished = True
            got.finish = choice.finish_reason

    def end(self) -> Got:
        if not self.finished:
            self.got.broken.append("no finish reason")
        if self.got.output_tokens is None:
            self.got.broken.append("no usage, though it was asked for")
        self.got.history = _history(self.got)
        return self.got

    def _delta(self, delta: Any) -> None:
        got = self.got
        reasoning, content, calls = (
            _reasoning(delta),
            delta.content or "",
            delta.tool_calls or [],
        )
        if sum(map(bool, (reasoning, content, calls))) > 1:
            got.broken.append("a delta mixes reasoning, content and calls")
        if self.finished and (reasoning or content or calls):
            got.broken.append("a delta after the finish reason")
        got.reasoning += reasoning
        got.content += content
        if reasoning or content:
            self.open_call = False
        for call in calls:
            self._call(call)

    def _call(self, call: Any) -> None:
        got = self.got
        if call.index == len(got.names):
            if not (call.id and call.function and call.function.name):
                got.broken.append(f"call {call.index} begins without its id or name")
            got.names.append((call.function and call.function.name) or "")
            got.arguments.append((call.function and call.function.arguments) or "")
            got.call_ids.append(call.id or "")
            self.open_call = True
        elif call.index == len(got.names) - 1:
            if call.function and call.function.name:
                got.broken.append(f"call {call.index} is named twice")
            if call.function and call.function.arguments:
                if not self.open_call:
                    got.broken.append(f"content interrupts call {call.index}")
                got.arguments[call.index] += call.function.arguments
        else:
            got.broken.append(f"call index {call.index} after {len(got.names)} calls")
