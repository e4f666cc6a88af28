# SPDX-License-Identifier: Apache-2.0
"""Proof of finish-reason-length: a call that was cut ends with ``length``, a whole
one with ``tool_calls`` (E10).
"""

import pytest

from harness import ask, call

WHOLE = call("read", ("path", "/a"))


@pytest.mark.parametrize("width", [None, 1, 4, 100])
@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        (WHOLE[:-30], "length", "length"),
        (WHOLE, "length", "length"),
        (WHOLE, "stop", "tool_calls"),
    ],
)
def test_finish_reason(
    text: str, engine: str, expected: str, width: int | None
) -> None:
    assert ask(text, width, end=engine).finish == expected
