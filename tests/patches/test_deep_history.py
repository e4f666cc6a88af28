# SPDX-License-Identifier: Apache-2.0
"""Proof of deep-history: arguments that nobody can parse are the client's fault."""

from __future__ import annotations

from typing import Any

import pytest

from application import application

DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


def _chat(arguments: str) -> dict[str, Any]:
    function = {"name": "read", "arguments": arguments}
    call = {"id": "c", "type": "function", "function": function}
    return {
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ]
    }


def _responses(arguments: str) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c", "name": "read"}
    return {
        "input": [
            {"role": "user", "content": "Hello"},
            {**call, "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ]
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", _chat), ("/v1/responses", _responses)],
    ids=["chat", "responses"],
)
def test_deep_arguments(path: str, body: Any) -> None:
    status, answer = application().post(path, body(DEEP))
    assert status == 400
    assert "nested too deeply" in answer
    assert application().post(path, body('{"a": 1}'))[0] == 200
