# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-tool-choice-none: ``/v1/messages`` takes ``tool_choice`` none,
and the output is text.
"""

import pytest

from harness import ask, call


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_none(width: int | None) -> None:
    output = call("read", ("path", "/a"))
    reading = ask(output, width, surface="messages", tool_choice={"type": "none"})
    assert (reading.content, reading.calls, reading.finish) == (output, [], "stop")
