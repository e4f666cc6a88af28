# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-responses: the item of a call that was cut is incomplete, and
comes back on the next turn (E10).
"""

import pytest

from cutting import (
    ENDS,
    FUNCTION,
    USER,
    WIDTHS,
    read_first_call,
    read_open_call,
    takes_back,
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ENDS)
def test_an_open_call_stays_open(end: str, width: int | None) -> None:
    reading = read_open_call("responses", end, width)
    assert [one.status for one in reading.calls] == ["completed", "incomplete"]
    if end == "max_tokens":
        assert reading.finish == "length"


def test_the_next_turn_takes_it_back() -> None:
    cut_item = {"type": "function_call", "id": "fc_1", "call_id": "c", **FUNCTION}
    cut_item["status"] = "incomplete"
    result = {"type": "function_call_output", "call_id": "c", "output": "no JSON"}
    takes_back("responses", input=[USER, cut_item, result])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cut_call_that_is_left_out_leaves_the_first_one_whole(
    width: int | None,
) -> None:
    read_first_call("responses", width)
