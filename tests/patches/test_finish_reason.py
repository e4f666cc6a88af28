# SPDX-License-Identifier: Apache-2.0
"""Proof of finish-reason-length: a call that was cut ends with ``length``, a whole one with ``tool_calls`` (E10)."""

from __future__ import annotations

import pytest
from serving import chat_answer, chat_chunks

from harness import call

WHOLE = call("read", ("path", "/a"))


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        (WHOLE[:-30], "length", "length"),
        (WHOLE, "length", "length"),
        (WHOLE, "stop", "tool_calls"),
    ],
)
def test_finish_reason(text: str, engine: str, expected: str) -> None:
    assert chat_answer(text, finish_reason=engine)["finish_reason"] == expected
    for width in (1, 4, 100):
        assert (
            chat_chunks(text, width, finish_reason=engine)[-1]["finish_reason"]
            == expected
        )
