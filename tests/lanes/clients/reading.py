# SPDX-License-Identifier: Apache-2.0
"""What a client's request holds, on each surface: the tools, and its history's
calls.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

#: Those of one turn of the assistant: (name, arguments, parsed if they are JSON).
Calls = list[tuple[str, Any]]


def declared(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request's tools by name, each with its JSON schema, if it has one."""
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


def asks(exchange: dict[str, Any]) -> set[str]:
    """Return what a request asks for by which a grammar may mask what is said."""
    request, found = exchange["request"], set[str]()
    tools = request.get("tools") or []
    tools = [*tools, *(each for tool in tools for each in tool.get("tools") or [])]
    if any((tool.get("function") or tool).get("strict") for tool in tools):
        found.add("strict tools")
    choice = request.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind not in (None, "auto", "none"):
        found.add(f"tool_choice {kind}")
    one = isinstance(choice, dict) and choice.get("disable_parallel_tool_use")
    if one or request.get("parallel_tool_calls") is False:
        found.add("one call")
    return found


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def history(path: str, request: dict[str, Any]) -> list[Calls]:
    if path.endswith("/responses"):
        return _items(request.get("input"))
    turns = []
    for message in request.get("messages") or []:
        if message.get("role") == "assistant":
            made = [call["function"] for call in message.get("tool_calls") or []]
            calls = [(call["name"], parsed(call["arguments"])) for call in made]
            blocks = message.get("content")
            calls += [
                (block["name"], block["input"])
                for block in (blocks if isinstance(blocks, list) else [])
                if block.get("type") == "tool_use"
            ]
            turns.append(calls)
    return turns


def _items(items: Any) -> list[Calls]:
    """Return the same for ``/v1/responses``, where a turn is several items in a row."""
    turns: list[Calls] = []
    rows = itertools.groupby(items if isinstance(items, list) else [], key=_is_reply)
    for row in (row for is_reply, row in rows if is_reply):
        turns.append([])
        for item in row:
            if item.get("type") == "function_call":
                turns[-1].append((item["name"], parsed(item["arguments"])))
            elif item.get("type") == "custom_tool_call":
                turns[-1].append((item["name"], {"input": item["input"]}))
    return turns


def _is_reply(item: dict[str, Any]) -> bool:
    kinds = ("function_call", "custom_tool_call", "reasoning")
    return item.get("type") in kinds or item.get("role") == "assistant"


def parsed(arguments: Any) -> Any:
    """Return arguments as JSON, or as they stand where they are none."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
