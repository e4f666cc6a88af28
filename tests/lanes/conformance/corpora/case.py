# SPDX-License-Identifier: Apache-2.0
"""Makes cases of the suite: what a model said, and what it meant by it."""

from collections.abc import Sequence
from typing import Any

from conformance.case import Call, Case, Tool, parse

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}


def tool(name: str, required: dict[str, Any], **optional: Any) -> Tool:
    """Return a tool, its required parameters first."""
    properties = {**required, **optional}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
    }
    return Tool(name=name, parameters=schema)


#: What an agent of today declares.
TOOLS = (
    tool("bash", {"command": STRING}, description=STRING, timeout=INTEGER),
    tool("read", {"file_path": STRING}, offset=INTEGER, limit=INTEGER),
    tool("write", {"file_path": STRING, "content": STRING}),
    tool(
        "edit",
        {"file_path": STRING, "old_string": STRING, "new_string": STRING},
        replace_all=BOOLEAN,
    ),
    tool("note", {"title": STRING, "body": STRING}, tags=STRING, color=STRING),
)


def make(
    name: str,
    output: str,
    calls: Sequence[Call],
    quoted: Sequence[Call] = (),
    *,
    tools: Sequence[Tool] = TOOLS,
    content: str | None = None,
    reasoning: str | None = None,
    in_reasoning: bool = False,
    cut: bool = False,
    ended: bool = False,
    whole: tuple[int, int] = (0, 0),
    ambiguous: str = "",
) -> Case:
    """Return a case: an output and its intended reading.

    Args:
        name: Unique within the corpus.
        output: What the model generated.
        calls: The calls that it made, in order.
        quoted: The calls that it only wrote about: none of them may run.
        tools: The request's tools.
        content: The answer's text apart from its calls; None where several texts would
            do. White space is not compared.
        reasoning: The reasoning's text, likewise.
        in_reasoning: Whether the output begins inside the reasoning.
        cut: The output was cut by ``max_tokens``.
        ended: The model itself ended an output that is not complete.
        whole: For a cut or ended output, how many of the calls are certainly whole,
            and how many may be taken as whole.
        ambiguous: Why more than one reading can be defended.

    """
    finish = "length" if cut else "tool_calls" if calls else "stop"
    document = {
        "description": ambiguous or "a case of a corpus",
        "class": "implementation-defined" if ambiguous else "must",
        "source": "corpora",
        "tools": tools,
        "starts": ["open" if in_reasoning else "closed"],
        "output": output,
        "end": "length" if cut else "stop",
        "expected": {
            "reasoning": reasoning,
            "content": content,
            "calls": calls,
            "quoted": quoted,
            "loose": True,
            "whole": whole if cut or ended else None,
            "finish_reason": None if ended else finish,
        },
    }
    return parse(document, name)


#: What follows a call: the text between, and the calls behind it.
Follows = tuple[str, tuple[Call, ...]]


def followed(name: str, text: str, call: Call, follows: Follows, **more: Any) -> Case:
    """Return the text of a call, and what follows it, as the template writes that."""
    between, calls = follows
    output = text + between + "\n".join(each.rendered() for each in calls)
    return make(name, output, (call, *calls), content=between, **more)
