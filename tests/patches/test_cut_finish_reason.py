# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-finish-reason: an output that max_tokens cut says ``length`` though it has a call (E10)."""

from __future__ import annotations

import pytest

from harness import call
from old_harness import arguments, ask

CUT = call("read", ("path", "/a")) + "\nAnd"


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_cut(width: int | None) -> None:
    reading = ask(CUT, width, end="length")
    assert arguments(reading) == [("read", {"path": "/a"})]
    assert reading.finish == "length"


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_whole(width: int | None) -> None:
    assert ask(call("read", ("path", "/a")), width).finish == "tool_calls"
