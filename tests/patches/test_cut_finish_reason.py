# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-finish-reason: an output that max_tokens cut says ``length`` though
it has a call (E10).
"""

import pytest

from harness import ask, call

CALL = call("read", ("path", "/a"))
CUT = CALL + "\n<tool_call>\n<function=write>\n<parameter=content>\nx"


@pytest.mark.parametrize("width", [None, 1, 100_000])
@pytest.mark.parametrize(
    ("output", "end", "finish"),
    [(CUT, "length", "length"), (CALL, "stop", "tool_calls")],
    ids=["cut", "whole"],
)
def test_finish_reason(output: str, end: str, finish: str, width: int | None) -> None:
    reading = ask(output, width, end=end)
    first = [(one.name, one.parsed) for one in reading.calls[:1]]
    assert first == [("read", {"path": "/a"})]
    assert reading.finish == finish
