# SPDX-License-Identifier: Apache-2.0
"""A streamed custom tool costs what a function does, and its deltas are its input."""

import json
import time
from typing import Any

import pytest

PATCH = "*** Update File: a.py\n" + "".join(
    f'+    line {number} = "é \\ \U0001f600"\n' for number in range(400)
)
HARD = 'a"b\\c\n\t\u2028\U0001f600{"input": "x"}\\u00e9'


def _stream(arguments: list[str], custom: bool = True) -> tuple[list[Any], float]:
    """The events of a call whose arguments come in these pieces, and their time."""
    from openai.types.responses import CustomTool
    from vllm.entrypoints.generate.base import protocol as messages
    from vllm.entrypoints.openai.responses import streaming_events

    tools = [CustomTool(type="custom", name="edit")] if custom else []
    processor: Any = streaming_events.SimpleStreamingEventProcessor(tools=tools)

    def delta(text: str, **fields: Any) -> Any:
        call = messages.DeltaToolCall(
            index=0, function=messages.DeltaFunctionCall(arguments=text, **fields)
        )
        return messages.DeltaMessage(tool_calls=[call])

    first = delta("", name="edit")
    began = time.process_time()
    events = processor.open(streaming_events._StateType.TOOL_CALL, first.tool_calls[0])
    for piece in arguments:
        events += processor.emit_delta(delta(piece), None)
    events += processor.close_current()
    return events, time.process_time() - began


def _cut(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def _inputs(events: list[Any]) -> tuple[str, str]:
    """The deltas of the input together, and the input of the item at the end."""
    deltas = [
        event.delta
        for event in events
        if event.type == "response.custom_tool_call_input.delta"
    ]
    return "".join(deltas), events[-1].item.input


def test_cost_is_that_of_a_function() -> None:
    pieces = _cut(json.dumps({"input": PATCH}), 3)
    custom, custom_time = _stream(pieces)
    _, function_time = _stream(pieces, custom=False)
    assert _inputs(custom) == (PATCH, PATCH)
    assert custom_time < 3 * function_time + 0.5, (
        f"{custom_time:.2f} s, a function {function_time:.2f} s"
    )


@pytest.mark.parametrize("text", ["", "x", HARD, "\ud83d", "\ude00\ud83d", "a\n" * 50])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_deltas_are_the_input(text: str, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    for width in range(1, len(arguments) + 1):
        assert _inputs(_stream(_cut(arguments, width))[0]) == (text, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{ "input" :\n"x"}', "x"),
        ('{"input": "x", "more": "y"}', "x"),
        ('{"more": "y", "input": "x"}', "x"),
        ("bare text", "bare text"),
        ('{"input": "cut', '{"input": "cut'),
        ('{"input": "a\tb"}', '{"input": "a\tb"}'),
    ],
)
def test_other_arguments_end_as_before(arguments: str, text: str) -> None:
    events, _ = _stream(list(arguments))
    assert events[-1].item.input == text
    assert _inputs(events)[0].endswith(text)
