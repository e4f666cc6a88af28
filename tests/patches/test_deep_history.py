# SPDX-License-Identifier: Apache-2.0
"""Proof of deep-history: arguments that nobody can parse are the client's fault."""

from typing import Any

import pytest

from application import application
from harness import DEEP, chat_history


def _items(arguments: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": "c", "name": "read"}
    return [
        {"role": "user", "content": "Hello"},
        {**call, "arguments": arguments},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]


@pytest.mark.parametrize(
    ("path", "field", "history"),
    [
        ("/v1/chat/completions", "messages", chat_history),
        ("/v1/responses", "input", _items),
    ],
    ids=["chat", "responses"],
)
def test_deep_arguments(path: str, field: str, history: Any) -> None:
    status, answer = application().post(path, {field: history(DEEP)})
    assert status == 400
    assert "nested too deeply" in answer
    assert application().post(path, {field: history('{"a": 1}')})[0] == 200
