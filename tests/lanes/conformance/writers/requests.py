"""What agents' requests hold beside functions and one question: other kinds of tools, and histories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import READ, WRITE, call, made, tool

SOURCE = "requests of Codex, Claude Code and Qwen Code"
TEXT = "first\nsecond\n"
TAGS = f"A call:\n{call('read', ('path', '/x'))}\n</parameter> is text, and so is <function=read>.\n"
WRITTEN = ("write", {"path": "/a.txt", "content": TEXT})
WRITES = call("write", ("path", "/a.txt"), ("content", TEXT))
PATCH = '*** Begin Patch\n*** Add File: a.md\n+a "quoted" line \\ and é 👩‍👩‍👧‍👦\n*** End Patch'

CUSTOM = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files.",
    "format": {"type": "text"},
}
ASKED, SAID = (
    {"role": "user", "content": "Write a file."},
    {"role": "assistant", "content": "Which?"},
)


def _function(declared: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "strict": False, **declared}


def cases() -> Iterator[Case]:
    """Every case asks only the surfaces whose clients send such requests."""
    yield from _tools()
    yield from _histories()
    for name in ("tool_call", "function", "parameter", "think"):
        yield made(
            f"names/tool-named-{name.replace('_', '-')}",
            f"a tool that is named {name}, as a tag of the frame is",
            f"{call(name, ('path', '/x'), ('content', TEXT))}\n{call('read', ('path', '/x'))}",
            source="Qwen Code has a tool named tool_call",
            tools=[tool(name, WRITE["parameters"]["properties"]), READ],
            calls=[(name, {"path": "/x", "content": TEXT}), ("read", {"path": "/x"})],
        )


def _tools() -> Iterator[Case]:
    patch = call("apply_patch", ("input", PATCH))
    patched = ("apply_patch", {"input": PATCH})
    tools = {"responses": {"tools": [CUSTOM, _function(READ)]}}
    yield made(
        "requests/custom-tool",
        "a custom tool, whose input is a text",
        patch,
        source=SOURCE,
        tools=[],
        request=tools,
        since="0.32.0",
        calls=[patched],
        min_argument_deltas=5,
    )
    yield made(
        "requests/custom-tool-markup",
        "a custom tool's input with tags in it",
        call("apply_patch", ("input", TAGS)),
        source=SOURCE,
        tools=[],
        request=tools,
        since="0.32.0",
        calls=[("apply_patch", {"input": TAGS})],
    )
    yield made(
        "requests/custom-tool-and-function",
        "a function, a custom tool, and the function again",
        "\n".join([call("read", ("path", "/x")), patch, call("read", ("path", "/y"))]),
        source=SOURCE,
        tools=[],
        request=tools,
        since="0.32.0",
        calls=[("read", {"path": "/x"}), patched, ("read", {"path": "/y"})],
    )
    yield made(
        "requests/custom-tool-cut",
        "a custom tool's input that the length limit cut",
        patch[: patch.index("*** End")],
        source=SOURCE,
        tools=[],
        request=tools,
        since="0.32.0",
        calls=[
            (
                "apply_patch",
                json.dumps(
                    {"input": PATCH[: PATCH.index("\n*** End")]}, ensure_ascii=False
                )[:-2],
            )
        ],
        end="length",
        starts=["closed"],
    )
    spaces = [
        {
            "type": "namespace",
            "name": "files",
            "description": "Files.",
            "tools": [_function(WRITE)],
        },
        _function(READ),
    ]
    yield made(
        "requests/namespace",
        "a tool of a namespace, and one of none",
        f"{WRITES.replace('=write', '=files__write')}\n{call('read', ('path', '/x'))}",
        source=SOURCE,
        tools=[],
        request={"responses": {"tools": spaces}},
        since="0.25.1",
        calls=[("files__write", WRITTEN[1]), ("read", {"path": "/x"})],
    )
    yield made(
        "requests/namespace-markup",
        "a value with tags for a tool of a namespace",
        call("files__write", ("path", "/a.txt"), ("content", TAGS)),
        source=SOURCE,
        tools=[],
        request={"responses": {"tools": spaces}},
        since="0.25.1",
        starts=["closed"],
        calls=[("files__write", {"path": "/a.txt", "content": TAGS})],
    )
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "write"}],
    }
    yield made(
        "requests/allowed-tools",
        "a choice among the tools",
        WRITES,
        source=SOURCE,
        request={"responses": {"tool_choice": allowed}},
        calls=[WRITTEN],
        starts=["closed"],
    )
    deferred = {
        "chat": {
            "tools": [
                {"type": "function", "function": READ},
                {"type": "function", "defer_loading": True, "function": WRITE},
            ]
        },
        "responses": {
            "tools": [_function(READ), {**_function(WRITE), "defer_loading": True}]
        },
        "messages": {
            "tools": [
                {"name": READ["name"], "input_schema": READ["parameters"]},
                {
                    "name": WRITE["name"],
                    "input_schema": WRITE["parameters"],
                    "defer_loading": True,
                },
            ]
        },
    }
    yield made(
        "requests/defer-loading",
        "a tool with defer_loading",
        WRITES,
        source=SOURCE,
        tools=[],
        request=deferred,
        since="0.21.0",
        calls=[WRITTEN],
        starts=["closed"],
    )


def _histories() -> Iterator[Case]:
    def history(
        name: str, description: str, request: dict[str, Any], **extra: Any
    ) -> Case:
        return made(
            f"requests/{name}",
            description,
            WRITES,
            source=SOURCE,
            request=request,
            calls=[WRITTEN],
            starts=["closed"],
            **extra,
        )

    chat_call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"path": "/x"}'},
    }
    item_call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "read",
        "arguments": '{"path": "/x"}',
    }
    block_call = {
        "type": "tool_use",
        "id": "c1",
        "name": "read",
        "input": {"path": "/x"},
    }
    first, second = (
        {"role": "system", "content": "You write files."},
        {"role": "system", "content": "Be brief."},
    )
    yield history(
        "system-messages",
        "several system messages, one of them late",
        {
            "chat": {"messages": [first, second, ASKED, SAID, second]},
            "responses": {
                "instructions": "You write files.",
                "input": [
                    {"role": "developer", "content": "Be brief."},
                    ASKED,
                    SAID,
                    second,
                ],
            },
            "messages": {
                "system": [
                    {
                        "type": "text",
                        "text": "You write files.",
                        "cache_control": {"type": "ephemeral"},
                    }
                ],
                "messages": [ASKED, SAID, second],
            },
        },
    )
    yield history(
        "tool-result-lists",
        "tool results as lists of content",
        {
            "chat": {
                "messages": [
                    ASKED,
                    {"role": "assistant", "tool_calls": [chat_call]},
                    {
                        "role": "tool",
                        "tool_call_id": "c1",
                        "content": [{"type": "text", "text": "x"}],
                    },
                ]
            },
            "responses": {
                "input": [
                    ASKED,
                    item_call,
                    {
                        "type": "function_call_output",
                        "call_id": "c1",
                        "output": [{"type": "input_text", "text": "x"}],
                    },
                ]
            },
            "messages": {
                "messages": [
                    ASKED,
                    {"role": "assistant", "content": [block_call]},
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "c1",
                                "content": [{"type": "text", "text": "x"}],
                            }
                        ],
                    },
                ]
            },
        },
    )
    yield history(
        "thinking-history",
        "the reasoning of an earlier turn",
        {
            "chat": {
                "messages": [
                    ASKED,
                    {
                        "role": "assistant",
                        "reasoning_content": "Hm.",
                        "content": "Which?",
                    },
                ]
            },
            "responses": {
                "input": [
                    ASKED,
                    {
                        "type": "reasoning",
                        "id": "rs_1",
                        "summary": [],
                        "content": [{"type": "reasoning_text", "text": "Hm."}],
                    },
                    {
                        "type": "message",
                        "id": "msg_1",
                        "status": "completed",
                        "role": "assistant",
                        "content": [
                            {"type": "output_text", "text": "Which?", "annotations": []}
                        ],
                    },
                ]
            },
            "messages": {
                "messages": [
                    ASKED,
                    {
                        "role": "assistant",
                        "content": [
                            {
                                "type": "thinking",
                                "thinking": "Hm.",
                                "signature": "c2lnbmVk",
                            },
                            {"type": "text", "text": "Which?"},
                        ],
                    },
                ]
            },
        },
        since="0.17.1",
    )
    yield history(
        "tool-reference",
        "a tool result that refers to a tool",
        {
            "messages": {
                "messages": [
                    ASKED,
                    {"role": "assistant", "content": [block_call]},
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "c1",
                                "content": [
                                    {"type": "tool_reference", "tool_name": "write"}
                                ],
                            }
                        ],
                    },
                ]
            },
        },
        since="0.21.0",
    )
    yield made(
        "requests/custom-tool-history",
        "an earlier call of a custom tool",
        call("apply_patch", ("input", PATCH)),
        source=SOURCE,
        tools=[],
        request={
            "responses": {
                "tools": [CUSTOM],
                "input": [
                    ASKED,
                    {
                        "type": "custom_tool_call",
                        "call_id": "c1",
                        "name": "apply_patch",
                        "input": PATCH,
                    },
                    {
                        "type": "custom_tool_call_output",
                        "call_id": "c1",
                        "output": "done",
                    },
                ],
            }
        },
        since="0.32.0",
        calls=[("apply_patch", {"input": PATCH})],
        starts=["closed"],
    )
