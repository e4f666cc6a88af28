# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-messages: a call that max_tokens or a stop string cut is left out
where its input would have to be an object (E10).
"""

import pytest

from cutting import ENDS, USER, WIDTHS, read_closed_call, read_open_call, takes_back


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ["max_tokens", "stop string"])  # it knows no other
def test_an_open_call_stays_open(end: str, width: int | None) -> None:
    reading = read_open_call("messages", end, width)
    assert reading.stopped_by == (ENDS[end][1] or "")
    if end == "max_tokens":
        assert reading.finish == "length"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tag", ["</tool_call>", "</function>"])
def test_a_stop_string_that_closes_the_call_ends_it(
    tag: str, width: int | None
) -> None:
    read_closed_call("messages", tag, width)


def test_the_next_turn_takes_it_back() -> None:
    """Clients that cannot parse the block send what they could read of it."""
    read = {"type": "tool_use", "id": "c", "name": "write", "input": {"path": "/b"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no JSON"}
    turns = [
        USER,
        {"role": "assistant", "content": [read]},
        {"role": "user", "content": [{**result, "is_error": True}]},
    ]
    takes_back("messages", messages=turns)
