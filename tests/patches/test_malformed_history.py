# SPDX-License-Identifier: Apache-2.0
"""Proof of malformed-history: a malformed call in the messages does not fail the
request (E9).
"""

import pytest

from harness import ask, chat_history


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "/a', "not JSON", '{"a": 1}{"b": 2}', "[1]", "7", "", '{"path": "/a"}'],
)
def test_request_is_served(arguments: str) -> None:
    try:
        reading = ask("Fine.", messages=chat_history(arguments))
    except (
        ValueError
    ) as error:  # releases before v0.24.0 raise it where later ones answer 400
        raise AssertionError(f"the history fails the request: {error}") from error
    assert (reading.broken, reading.content) == ([], "Fine.")
