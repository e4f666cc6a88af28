# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-reasoning-items: a reasoning item of the history may leave out its content."""

from __future__ import annotations

from typing import Any

import pytest
from old_harness import ask


def _history(**fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message", "role": "user", "content": "hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [], **fields},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"path": "/a"}'},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"status": "in_progress"},
        {"status": "completed", "encrypted_content": None},
        {"content": None},
        {"content": [{"type": "reasoning_text", "text": "I read it."}]},
    ],
)
def test_request_is_served(fields: dict[str, Any]) -> None:
    try:
        reading = ask("Fine.", surface="responses", input=_history(**fields))
    except KeyError as error:
        pytest.fail(f"the server fails, which is a 500: KeyError({error})")
    assert (reading.broken, reading.content) == ([], "Fine.")
