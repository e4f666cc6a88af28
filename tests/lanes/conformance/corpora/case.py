# SPDX-License-Identifier: Apache-2.0
"""The shape of a corpus: what a model said, and what it meant by it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance import case as cases

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}


@dataclass(frozen=True)
class Call:
    """A call, its values as the texts that the model wrote."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """An output and its intended reading.

    Attributes:
        name: Unique within the corpus.
        output: What the model generated.
        calls: The calls that it made, in order.
        quoted: The calls that it only wrote about: none of them may run.
        tools: The request's tools, by name: the JSON schema of their parameters.
        content: The answer's text apart from its calls; None where several
            texts would do.  White space is compared as one space.
        reasoning: The reasoning's text, likewise.
        in_reasoning: Whether the output begins inside the reasoning.
        cut: The output was cut, by ``max_tokens`` or a stop string.
        ended: The model itself ended an output that is not complete.
        whole: For a cut or ended output, how many of the calls are certainly
            whole, and how many may be taken as whole.  Of the next one only a
            beginning was said: it may be missing, and is never whole.
        ambiguous: Why more than one reading can be defended; such a case is
            counted apart.

    """

    name: str
    output: str
    calls: tuple[Call, ...]
    quoted: tuple[Call, ...] = ()
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: TOOLS)
    content: str | None = None
    reasoning: str | None = None
    in_reasoning: bool = False
    cut: bool = False
    ended: bool = False
    whole: tuple[int, int] = (0, 0)
    ambiguous: str = ""


def tool(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of a tool's parameters, the required ones first."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


TOOLS: dict[str, dict[str, Any]] = {
    "bash": tool({"command": STRING}, description=STRING, timeout=INTEGER),
    "read": tool({"file_path": STRING}, offset=INTEGER, limit=INTEGER),
    "write": tool({"file_path": STRING, "content": STRING}),
    "edit": tool(
        {"file_path": STRING, "old_string": STRING, "new_string": STRING},
        replace_all=BOOLEAN,
    ),
    "note": tool({"title": STRING, "body": STRING}, tags=STRING, color=STRING),
}
"""What an agent of today declares, by name."""


def required(tools: Mapping[str, Mapping[str, Any]], name: str) -> list[str]:
    """The required keys of a tool that admit no null."""
    schema = tools.get(name, {})
    properties = schema.get("properties", {})
    return [
        key
        for key in schema.get("required", ())
        if "null" not in _types(properties.get(key, {}))
    ]


def _types(schema: Mapping[str, Any]) -> set[str]:
    branches = schema.get("anyOf", [schema])
    found: set[str] = set()
    for branch in branches:
        kind = branch.get("type", ())
        found |= {kind} if isinstance(kind, str) else set(kind)
    return found


def arguments(case: Case, call: Call) -> dict[str, Any]:
    """The arguments that a client must get for a call, by the tool's schema."""
    properties = case.tools.get(call.name, {}).get("properties", {})
    values: dict[str, Any] = {}
    for key, text in call.values.items():
        kind = properties.get(key, {}).get("type")
        if kind == "integer":
            values[key] = int(text)
        elif kind == "boolean":
            values[key] = text.strip().lower() == "true"
        else:
            values[key] = text
    return values


def suite(case: Case, corpus: str) -> cases.Case:
    """The case as the suite has it."""

    def calls(some: Iterable[Call]) -> list[dict[str, Any]]:
        return [{"name": one.name, "arguments": arguments(case, one)} for one in some]

    finish = "length" if case.cut else "tool_calls" if case.calls else "stop"
    document = {
        "description": case.ambiguous or "a case of a corpus",
        "class": "implementation-defined" if case.ambiguous else "must",
        "source": "corpora",
        "tools": [
            {"name": name, "parameters": dict(schema)}
            for name, schema in case.tools.items()
        ],
        "starts": ["open" if case.in_reasoning else "closed"],
        "output": case.output,
        "end": "length" if case.cut else "stop",
        "expected": {
            "reasoning": case.reasoning,
            "content": case.content,
            "calls": calls(case.calls),
            "quoted": calls(case.quoted),
            "loose": True,
            "whole": case.whole if case.cut or case.ended else None,
            "finish_reason": None if case.ended else finish,
        },
    }
    return cases.parse(document, f"corpora/{corpus}/{case.name}")
