# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls: a call that max_tokens or a stop string cut is whole nowhere,
and comes back on the next turn (E10).
"""

import json
from typing import Any

import pytest

from conformance.reading import Reading
from harness import SURFACES, TOOLS, ask, call, faults, tool

WIDTHS = (None, 1, 3, 100_000)
#: How an output ended: what the engine says, and the stop string.
ENDS = {
    "max_tokens": ("length", None),
    "stop string": ("stop", "\nObservation:"),
    "abort": ("abort", None),
}
READ = call("read", ("path", "/a"))
WHOLE = READ + "\n"
OPEN = "<tool_call>\n<function=write>\n<parameter=path>\n/b\n</parameter>\n<parameter=content>\nrm -rf data"
SENT = ['{"path": "/a"}', '{"path": "/b", "content": "rm -rf data']
BEGUN = "<tool_call>\n<function=wait>\n"
SECONDS = {"name": {"type": "string"}, "seconds": {"type": "integer"}}
WAIT = tool("wait", {"type": "object", "properties": SECONDS})


def cut(output: str, width: int | None, end: str, **options: Any) -> Reading:
    """What a client reads of an output that was cut."""
    finish, stop = ENDS[end]
    return ask(output, width, end=finish, stop=stop, **options)


def texts(reading: Reading) -> list[str]:
    """The arguments of its calls as they were sent."""
    return [one.text or json.dumps(one.parsed) for one in reading.calls]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("surface", SURFACES)
def test_an_open_call_stays_open(surface: str, end: str, width: int | None) -> None:
    if (surface, end) == ("messages", "abort"):
        pytest.skip("the surface has no reason for it")
    reading = cut(WHOLE + OPEN, width, end, surface=surface)
    # An object has no place for a call that is cut: it is left out.
    assert texts(reading) == SENT[: 1 if reading.omits_cut else 2]
    assert {one.partition(":")[0] for one in faults(reading)} <= {"valid-json"}
    if surface == "responses":
        assert [one.status for one in reading.calls] == ["completed", "incomplete"]
    else:
        assert reading.stopped_by == (ENDS[end][1] or "")
    if surface == "chat" or end == "max_tokens":
        assert reading.finish == ENDS[end][0]


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
@pytest.mark.parametrize("surface", ["chat", "messages"])
def test_a_stop_string_that_closes_the_call_ends_it(
    surface: str, tag: str, width: int | None
) -> None:
    reading = ask(READ[: READ.index(tag)], width, surface=surface, stop=tag)
    assert [(one.name, one.parsed) for one in reading.calls] == [
        ("read", {"path": "/a"})
    ]
    assert (reading.content, reading.finish) == ("", "tool_calls")


USER = {"role": "user", "content": "hello"}
FUNCTION = {"name": "write", "arguments": SENT[1]}
#: What each surface sent of a cut call, as clients send it back.
HISTORIES: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "no JSON"},
        ]
    },
    "responses": {
        "input": [
            USER,
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c",
                "status": "incomplete",
                **FUNCTION,
            },
            {"type": "function_call_output", "call_id": "c", "output": "no JSON"},
        ]
    },
    # Clients that cannot parse the block send what they could read of it.
    "messages": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "c",
                        "name": "write",
                        "input": {"path": "/b"},
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": "no JSON",
                        "is_error": True,
                    }
                ],
            },
        ]
    },
}


@pytest.mark.parametrize("surface", SURFACES)
def test_the_next_turn_takes_it_back(surface: str) -> None:
    reading = ask("Fine.", surface=surface, **HISTORIES[surface])
    assert (reading.broken, reading.content) == ([], "Fine.")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("surface", ["chat", "responses"])
def test_a_cut_call_that_is_left_out_leaves_the_first_one_whole(
    surface: str, width: int | None
) -> None:
    options: dict[str, Any] = {"surface": surface, "parallel_tool_calls": False}
    reading = cut(WHOLE + OPEN, width, "stop string", **options)
    assert texts(reading) == SENT[:1]
    assert reading.calls[0].status in (None, "completed")
    assert reading.finish == "tool_calls"
