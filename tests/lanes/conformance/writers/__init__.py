"""Writers of case files: each renders calls by the chat template and knows the values it rendered.

Expected messages come from those values, never from reading the output back. ``python -m conformance.writers`` writes the
files; a case may as well be written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.case import Case, parse

STRING = {"type": "string"}


def tool(
    name: str, properties: dict[str, Any] | None = None, **extra: Any
) -> dict[str, Any]:
    """A tool; ``extra`` goes into its schema (``$defs``, ``required``)."""
    return {
        "name": name,
        "parameters": {"type": "object", "properties": properties or {}, **extra},
    }


WRITE = tool("write", {"path": STRING, "content": STRING})
READ = tool("read", {"path": STRING})
FILES = [WRITE, READ]


def call(name: str, *params: tuple[str, str]) -> str:
    """A call as the chat template renders it: values stand unescaped between two newlines that belong to the frame."""
    body = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in params
    )
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def made(
    name: str,
    description: str,
    output: str,
    *,
    source: str,
    content: str = "",
    reasoning: str = "",
    calls: Iterable[tuple[str, dict[str, Any] | str]] = (),
    cls: str = "must",
    tools: list[dict[str, Any]] | None = None,
    end: str = "stop",
    **extra: Any,
) -> Case:
    """A case. Arguments that are text are those of a call that is cut. The finish reason follows from ``end`` and from
    whether the last call is whole."""
    expected_calls = [
        {"name": n, "argument_text" if isinstance(a, str) else "arguments": a}
        for n, a in calls
    ]
    whole = bool(expected_calls) and "arguments" in expected_calls[-1]
    opens = (
        output.lstrip().startswith("<tool_call>")
        and bool(expected_calls)
        and not content
    )
    document = {
        "description": description,
        "class": cls,
        "source": source,
        "tools": FILES if tools is None else tools,
        "output": output,
        "end": end,
        "expected": {
            "reasoning": reasoning,
            "content": content,
            "calls": expected_calls,
            "finish_reason": "length"
            if end == "length"
            else "tool_calls"
            if whole
            else "stop",
        },
        "opens_with": extra.pop("opens_with", "call" if opens else "text"),
        **extra,
    }
    return parse(document, name)


def value(
    name: str, description: str, text: str, *, source: str, tail: str = "", **extra: Any
) -> Case:
    """A case that writes ``text`` as a file's content: it must come back byte for byte."""
    output = call("write", ("path", "/a.txt"), ("content", text)) + tail
    return made(
        name,
        description,
        output,
        source=source,
        calls=[("write", {"path": "/a.txt", "content": text})],
        **extra,
    )
