# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-finish-reason: an output that max_tokens cut says ``length`` though
it has a call (E10).
"""

from __future__ import annotations

import pytest

from harness import arguments, ask, call

CALL = call("read", ("path", "/a"))
CUT = CALL + "\n<tool_call>\n<function=write>\n<parameter=content>\nx"


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_cut(width: int | None) -> None:
    reading = ask(CUT, width, end="length")
    first = [(one.name, one.parsed) for one in reading.calls[:1]]
    assert first == [("read", {"path": "/a"})]
    assert reading.finish == "length"


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_whole(width: int | None) -> None:
    reading = ask(CALL, width)
    assert arguments(reading) == [("read", {"path": "/a"})]
    assert reading.finish == "tool_calls"
