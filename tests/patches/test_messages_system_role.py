# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-system-role: a system message between the others of /v1/messages is served, and stays where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from application import application

USER = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "1"}}],
}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "done"}]}
TOOLS = [{"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}]

TEXT = {"role": "system", "content": "It is late."}
BLOCKS = {"role": "system", "content": [{"type": "text", "text": "It is late."}]}


def _prompt(messages: list[dict[str, Any]]) -> str:
    application().json(
        "/v1/messages", {"system": "Be brief.", "messages": messages, "tools": TOOLS, "max_tokens": 100}
    )
    return application().history


@pytest.mark.parametrize("late", [TEXT, BLOCKS], ids=["text", "blocks"])
def test_in_its_place(late: dict[str, Any]) -> None:
    before = _prompt([USER])
    after = _prompt([USER, late, USER])
    late_turn, user_turn = "<|im_start|>user\nIt is late.<|im_end|>\n", "<|im_start|>user\nHello<|im_end|>\n"
    assert after == before + late_turn + user_turn


@pytest.mark.parametrize("late", [TEXT, BLOCKS], ids=["text", "blocks"])
def test_behind_a_tool_result(late: dict[str, Any]) -> None:
    before = _prompt([USER, CALL])
    assert _prompt([USER, CALL, RESULT, late]).startswith(before)
    assert "done\n\nIt is late.\n</tool_response>" in application().history


def test_tokens_are_counted_alike() -> None:
    body = {"messages": [USER, TEXT, USER], "tools": TOOLS}
    counted = application().json("/v1/messages/count_tokens", body)
    answer = application().json("/v1/messages", {**body, "max_tokens": 100})
    assert counted["input_tokens"] == answer["usage"]["input_tokens"]
