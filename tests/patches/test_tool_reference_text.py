# SPDX-License-Identifier: Apache-2.0
"""Proof of tool-reference-text: a tool's name stands for a reference to it where the
template refuses the reference.
"""

from typing import Any

import pytest

from application import QWEN3_CODER, application

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}}
TOOLS = [
    {"name": "ToolSearch", "input_schema": SCHEMA},
    {"name": "WebFetch", "input_schema": SCHEMA, "defer_loading": True},
    {"name": "WebSearch", "input_schema": SCHEMA, "defer_loading": True},
]
FETCH, SEARCH = (
    {"type": "tool_reference", "tool_name": name} for name in ("WebFetch", "WebSearch")
)
TEXT = {"type": "text", "text": "Found:"}


def _history(*found: dict[str, Any]) -> str:
    """The prompt's turns behind the user's, when the tool search found this."""
    use = {
        "type": "tool_use",
        "id": "call_1",
        "name": "ToolSearch",
        "input": {"url": "x"},
    }
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": list(found)}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    body = {"messages": messages, "tools": TOOLS, "max_tokens": 100}
    application().json("/v1/messages", body)
    return application().history.rpartition("</tool_call><|im_end|>\n")[2]


@pytest.mark.parametrize(
    ("found", "results"),
    [
        ([FETCH], ["WebFetch"]),
        ([FETCH, SEARCH], ["WebFetch\nWebSearch"]),
        ([TEXT, FETCH], ["Found:\nWebFetch"]),
        ([TEXT, FETCH, TEXT], ["Found:\nFound:\nWebFetch"]),
        ([TEXT], ["Found:"]),
    ],
    ids=["one", "two", "text-and-one", "text-around-one", "text"],
)
def test_names_of_the_tools(found: list[dict[str, Any]], results: list[str]) -> None:
    turns = "".join(
        f"\n<tool_response>\n{result}\n</tool_response>" for result in results
    )
    assert _history(*found) == f"<|im_start|>user{turns}<|im_end|>\n"
    assert '"WebFetch"' in application().prompt, "the tool stands among the tools"


def test_a_template_of_text_gets_the_name_too() -> None:
    result = [TEXT, {"type": "tool_reference", "name": "WebFetch"}]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hello"},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
    prompt = application().rendered(messages, chat_template=QWEN3_CODER.read_text())
    assert prompt.endswith(
        "<tool_response>\nFound:\nWebFetch\n</tool_response>\n<|im_end|>\n"
    )
