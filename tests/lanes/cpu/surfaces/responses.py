# SPDX-License-Identifier: Apache-2.0
"""``/v1/responses`` through the ``openai`` package."""

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
        {"type": "function_call_output", "call_id": id, "output": text}
        for id, text in zip(got.call_ids, texts, strict=False)
    ]
    return [*got.history, *answers]


async def ask(clients: Clients, request: Ask) -> Got:
    """Send one request and assemble the answer."""
    arguments = _arguments(clients, request)
    if not request.streamed:
        return _whole(await clients.openai.responses.create(**arguments))
    assembled = _Assembled()
    async for event in await clients.openai.responses.create(**arguments, stream=True):
        assembled.add(event)
    return assembled.end()


def _arguments(clients: Clients, request: Ask) -> dict[str, Any]:
    transcript = request.transcript
    named: dict[str, Any] = {
        "model": clients.model,
        "input": request.history,
        "temperature": 0,
        "store": False,
        "extra_body": {
            "chat_template_kwargs": {"enable_thinking": transcript.thinking}
        },
    }
    if transcript.tools:
        named |= {"tools": _tools(transcript), "tool_choice": _tool_choice(transcript)}
    if request.max_tokens is not None:
        named["max_output_tokens"] = request.max_tokens
    return named


def _tools(transcript: Transcript) -> list[dict[str, Any]]:
    schemas = tool_schemas(transcript.tools)
    return [
        {"type": "function", "name": name, "parameters": schemas[name], "strict": False}
        for name in schemas
    ]


def _tool_choice(transcript: Transcript) -> Any:
    if transcript.tool_choice in ("auto", "required", "none"):
        return transcript.tool_choice
    return {"type": "function", "name": transcript.tool_choice}


def _whole(response: Any) -> Got:
    got = Got(
        id=response.id,
        output_tokens=response.usage.output_tokens if response.usage else None,
    )
    for item in response.output:
        if item.type == "reasoning":
            got.reasoning += "".join(part.text for part in item.content or [])
        elif item.type == "message":
            text = "".join(part.text for part in item.content)
            got.content += text
            got.history.append({"role": "assistant", "content": text})
        elif item.type == "function_call":
            got.names.append(item.name)
            got.arguments.append(item.arguments)
            got.call_ids.append(item.call_id)
            call = {
                "type": "function_call",
                "call_id": item.call_id,
                "name": item.name,
                "arguments": item.arguments,
            }
            got.history.append(call)
        else:
            got.broken.append(f"an output item of type {item.type}")
    got.finish = _finish(response, bool(got.names))
    return got


def _finish(response: Any, called: bool) -> str:
    if response.status == "incomplete":
        reason = (
            response.incomplete_details.reason if response.incomplete_details else ""
        )
        return "length" if reason == "max_output_tokens" else f"incomplete: {reason}"
    if response.status != "completed":
        return str(response.status)
    return "tool_calls" if called else "stop"


class _Assembled:
    """Puts the deltas together, and holds them against the response that the stream ends with."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {"reasoning": "", "content": ""}
        self.calls: dict[int, list[str]] = {}
        self.open_item: int | None = None
        self.broken: list[str] = []
        self.final: Any = None

    def add(self, event: Any) -> None:
        kind = event.type
        if kind == "response.output_item.added":
            if self.open_item is not None:
                self.broken.append("an item begins while another is open")
            self.open_item = event.output_index
            if event.item.type == "function_call":
                self.calls[event.output_index] = [
                    event.item.name or "",
                    event.item.arguments or "",
                ]
        elif kind == "response.output_item.done":
            if self.open_item != event.output_index:
                self.broken.append("an item ends that is not open")
            self.open_item = None
        elif kind in ("response.reasoning_text.delta", "response.output_text.delta"):
            self._inside(event)
            self.text["reasoning" if "reasoning" in kind else "content"] += event.delta
        elif kind == "response.function_call_arguments.delta":
            self._inside(event)
            self.calls.setdefault(event.output_index, ["", ""])[1] += event.delta
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self.final = event.response
        elif kind == "error":
            self.broken.append(f"error event: {getattr(event, 'message', event)}")

    def end(self) -> Got:
        if self.final is None:
            got = Got(
                broken=[*self.broken, "the stream ended without a final response"]
            )
            got.finish = "aborted"
            return self._streamed(got)
        got = _whole(self.final)
        got.broken += self.broken
        final = (got.reasoning, got.content, got.names, got.arguments)
        self._streamed(got)
        if final != (got.reasoning, got.content, got.names, got.arguments):
            got.broken.append("the final response is not what was streamed")
        return got

    def _streamed(self, got: Got) -> Got:
        got.reasoning, got.content = self.text["reasoning"], self.text["content"]
        ordered = [self.calls[index] for index in sorted(self.calls)]
        got.names, got.arguments = (
            [call[0] for call in ordered],
            [call[1] for call in ordered],
        )
        return got

    def _inside(self, event: Any) -> None:
        if self.open_item != event.output_index:
            self.broken.append("a delta outside its item")
