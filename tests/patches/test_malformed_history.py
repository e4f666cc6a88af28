# SPDX-License-Identifier: Apache-2.0
"""Proof of malformed-history: a malformed call in the messages does not fail the
request (E9).
"""

from __future__ import annotations

from typing import Any

import pytest

from harness import ask


def _history(arguments: str) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": arguments}
    return [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "/a', "not JSON", '{"a": 1}{"b": 2}', "[1]", "7", "", '{"path": "/a"}'],
)
def test_request_is_served(arguments: str) -> None:
    try:
        reading = ask("Fine.", messages=_history(arguments))
    except (
        ValueError
    ) as error:  # releases before v0.24.0 raise it where later ones answer 400
        raise AssertionError(f"the history fails the request: {error}") from error
    assert (reading.broken, reading.content) == ([], "Fine.")
