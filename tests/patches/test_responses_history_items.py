# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-history-items: items of the history may leave out what clients
leave out.
"""

from typing import Any

import pytest

from harness import ask

TEXT = {"type": "output_text", "text": "I read it."}
ANNOTATED = {**TEXT, "annotations": []}
REASONING = {"type": "reasoning", "summary": []}
MESSAGE = {"type": "message", "role": "assistant"}


def _history(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "message", "role": "user", "content": "hello"},
        item,
        {
            "type": "function_call",
            "call_id": "c",
            "name": "read",
            "arguments": '{"path": "/a"}',
        },
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]


@pytest.mark.parametrize(
    "item",
    [
        {**REASONING, "id": "rs_1"},
        {**REASONING, "id": "rs_1", "status": "in_progress"},
        {**REASONING, "id": "rs_1", "status": "completed", "encrypted_content": None},
        {**REASONING, "id": "rs_1", "content": None},
        {
            **REASONING,
            "id": "rs_1",
            "content": [{"type": "reasoning_text", "text": "I read it."}],
        },
        REASONING,
        {**MESSAGE, "content": [TEXT]},
        {**MESSAGE, "content": [ANNOTATED]},
        {**MESSAGE, "content": [ANNOTATED], "id": "msg_1"},
        {**MESSAGE, "content": [TEXT], "id": "msg_1", "status": "completed"},
        {
            **MESSAGE,
            "content": [TEXT, TEXT],
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
        },
        {**MESSAGE, "content": "I read it."},
        {**MESSAGE, "content": []},
        {**MESSAGE, "content": [{"type": "input_text", "text": "I read it."}]},
    ],
)
def test_request_is_served(item: dict[str, Any]) -> None:
    try:
        reading = ask("Fine.", surface="responses", input=_history(item))
    except KeyError as error:
        pytest.fail(f"the server fails, which is a 500: KeyError({error})")
    assert (reading.broken, reading.content) == ([], "Fine.")
