# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-system-role: a system message between the others of /v1/messages
is served, and stays where it stands.
"""

import json
from typing import Any

import pytest

from application import application

USER = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "1"}}
    ],
}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "done"}],
}
TOOLS = [
    {
        "name": "read",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]

TEXT = {"role": "system", "content": "It is late."}
BLOCKS = {"role": "system", "content": [{"type": "text", "text": "It is late."}]}


def _turn(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n"


def _prompt(messages: list[dict[str, Any]]) -> str:
    application().json(
        "/v1/messages",
        {
            "system": "Be brief.",
            "messages": messages,
            "tools": TOOLS,
            "max_tokens": 100,
        },
    )
    return application().history


@pytest.mark.parametrize("late", [TEXT, BLOCKS], ids=["text", "blocks"])
def test_in_its_place(late: dict[str, Any]) -> None:
    before = _prompt([USER])
    assert _prompt([USER, late, USER]) == before + _turn("It is late.") + _turn("Hello")


@pytest.mark.parametrize("late", [TEXT, BLOCKS], ids=["text", "blocks"])
def test_behind_a_tool_result(late: dict[str, Any]) -> None:
    before, after = _prompt([USER, CALL, RESULT]), _prompt([USER, CALL, RESULT, late])
    if before.endswith(_turn("")):
        # v0.17.1 and v0.18.1 put a user's turn without text behind every result: the
        # message has its turn there.
        assert after == before + _turn("It is late.")
    else:
        assert after == before.replace("done\n", "done\n\nIt is late.\n")


def test_tokens_are_counted_alike() -> None:
    body = {"messages": [USER, TEXT, USER], "tools": TOOLS}
    status, counted = application().post("/v1/messages/count_tokens", body)
    if status == 404:
        pytest.skip("this release counts no tokens of a request")
    answer = application().json("/v1/messages", {**body, "max_tokens": 100})
    assert json.loads(counted)["input_tokens"] == answer["usage"]["input_tokens"]
