# SPDX-License-Identifier: Apache-2.0
"""Proof of required-without-call: a required call that the output does not hold is not
what the response finishes with.
"""

import pytest

from harness import ask, call


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_no_call(width: int | None) -> None:
    reading = ask("I cannot.", width, tool_choice="required")
    assert (reading.finish, reading.calls) == ("stop", [])


@pytest.mark.parametrize("width", [None, 1])
def test_call(width: int | None) -> None:
    output = call("read", ("path", "/a"))
    reading = ask(output, width, tool_choice="auto")
    assert (reading.finish, len(reading.calls)) == ("tool_calls", 1)
