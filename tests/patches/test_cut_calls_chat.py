# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-chat: a call that max_tokens or a stop string cut is whole
nowhere, and comes back on the next turn (E10).
"""

import pytest

from cutting import (
    ENDS,
    FUNCTION,
    OPEN,
    SENT,
    USER,
    WIDTHS,
    cut,
    read_closed_call,
    read_first_call,
    read_open_call,
    takes_back,
    texts,
)
from harness import TOOLS, call, tool

BEGUN = "<tool_call>\n<function=wait>\n"
SECONDS = {"name": {"type": "string"}, "seconds": {"type": "integer"}}
WAIT = tool("wait", {"type": "object", "properties": SECONDS})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ENDS)
def test_an_open_call_stays_open(end: str, width: int | None) -> None:
    reading = read_open_call("chat", end, width)
    assert (reading.finish, reading.stopped_by) == (ENDS[end][0], ENDS[end][1] or "")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("output", "sent"),
    [
        (OPEN, SENT[1:]),
        # An open value that is no string is left out.
        (
            BEGUN + "<parameter=name>\nx\n</parameter>\n<parameter=seconds>\n120",
            ['{"name": "x"'],
        ),
        # No arguments at all would be none, and valid, to some clients.
        (BEGUN + "<parameter=seconds>\n1", ["{"]),
        # Without a further tag of the frame, the opening is a mention.
        (BEGUN, []),
    ],
)
def test_alone(output: str, sent: list[str], width: int | None) -> None:
    assert texts(cut(output, width, "max_tokens", tools=[*TOOLS, WAIT])) == sent


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cut_is_never_whole_wherever_it_is(width: int | None) -> None:
    output = call("write", ("path", "/b"), ("content", "a\nb"))
    for at in range(output.index("=write>") + 7, output.index("</function>"), 5):
        for end in ("max_tokens", "stop string"):
            reading = cut(output[:at], width, end)
            assert [one.parsed for one in reading.calls] == [None] * len(reading.calls)
            assert reading.finish != "tool_calls"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tag", ["</tool_call>", "</function>"])
def test_a_stop_string_that_closes_the_call_ends_it(
    tag: str, width: int | None
) -> None:
    read_closed_call("chat", tag, width)


def test_the_next_turn_takes_it_back() -> None:
    calls = [{"id": "c", "type": "function", "function": FUNCTION}]
    cut_turn = {"role": "assistant", "content": "", "tool_calls": calls}
    result = {"role": "tool", "tool_call_id": "c", "content": "no JSON"}
    takes_back("chat", messages=[USER, cut_turn, result])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cut_call_that_is_left_out_leaves_the_first_one_whole(
    width: int | None,
) -> None:
    read_first_call("chat", width)
