"""What a client's request holds, on each surface: the tools it declares and the assistant's turns in its history."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Said:
    """One turn of the assistant, as a client sends it back."""

    content: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """(name, arguments), the arguments parsed if they are JSON."""


def declared(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The tools of a request by name, each with its JSON schema (None for a tool without one)."""
    tools: dict[str, Any] = {}
    for tool in request.get("tools") or []:
        if tool.get("type") == "namespace":
            tools |= declared(path, tool)
        elif path.endswith("/chat/completions"):
            function = tool.get("function") or {}
            tools[function.get("name", "")] = function.get("parameters")
        elif tool.get("name"):
            tools[tool["name"]] = tool.get("parameters") or tool.get("input_schema")
    return tools


def history(path: str, request: dict[str, Any]) -> list[Said]:
    """The assistant's turns in a request's history."""
    if path.endswith("/responses"):
        return _items(request.get("input"))
    turns = []
    for message in request.get("messages") or []:
        if message.get("role") == "assistant":
            said = Said(text(message.get("content")))
            for call in message.get("tool_calls") or []:
                said.calls.append(
                    (call["function"]["name"], parsed(call["function"]["arguments"]))
                )
            for block in (
                message["content"] if isinstance(message.get("content"), list) else []
            ):
                if block.get("type") == "tool_use":
                    said.calls.append((block["name"], block["input"]))
            turns.append(said)
    return turns


def _items(items: Any) -> list[Said]:
    """The same for the items of ``/v1/responses``, where one turn is several items in a row."""
    turns: list[Said] = []
    inside = False
    for item in items if isinstance(items, list) else []:
        kind = item.get("type", "message")
        ours = (
            kind in ("function_call", "custom_tool_call", "reasoning")
            or item.get("role") == "assistant"
        )
        if ours and not inside:
            turns.append(Said())
        inside = ours
        if kind == "function_call":
            turns[-1].calls.append((item["name"], parsed(item["arguments"])))
        elif kind == "custom_tool_call":
            turns[-1].calls.append((item["name"], {"input": item["input"]}))
        elif ours and kind == "message":
            turns[-1].content += text(item.get("content"))
    return turns


def text(content: Any) -> str:
    """The text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, list):
        return "".join(
            block.get("text") or ""
            for block in content
            if block.get("type") in ("text", "output_text")
        )
    return content or ""


def parsed(arguments: Any) -> Any:
    """Arguments as JSON, or as they stand where they are none."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
