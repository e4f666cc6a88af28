# SPDX-License-Identifier: Apache-2.0
"""Proof of value-steps: a step that brings text of a value costs few calls, and its delta is what the constructors make."""

from __future__ import annotations

import sys
from typing import Any

from harness import TOOLS, _parser, _prompt, _request, steps

OPENING = "<tool_call>\n<function=read>\n<parameter=path>\n"
VALUE = "one two <li> three four <b> five"

#: From the call of ``parse_delta`` to its return; the three models of a delta alone were three.
MOST_CALLS = 7


def deltas(text: str, calls: list[int]) -> list[Any]:
    """The delta of each step of one token, and how many functions of the parser it took, the metrics' aside."""
    request = _request(TOOLS, True)
    parser, prompt = _parser(request, False), _prompt(False, None)
    found: list[Any] = []

    def count(frame: Any, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        calls[-1] += event == "call" and "/vllm/parser/" in file and not file.endswith("metrics.py")

    for piece, ids in steps(text, 1):
        calls.append(0)
        sys.setprofile(count)
        try:
            found.append(parser.parse_delta(piece, ids, request, prompt, finished=False))
        finally:
            sys.setprofile(None)
    return found


def test_text_of_a_value_takes_few_calls() -> None:
    calls: list[int] = []
    found = deltas(OPENING + VALUE, calls)
    text = [
        number
        for number, delta in enumerate(found)
        if delta is not None and delta.tool_calls and delta.tool_calls[0].function.name is None
    ]
    assert len(text) > 5
    assert sorted(calls[number] for number in text)[len(text) // 2] <= MOST_CALLS


def test_a_delta_is_what_the_constructors_make() -> None:
    made = deltas(OPENING + "one two", [])[-1]
    call = made.tool_calls[0]
    plain = type(made)(
        tool_calls=[type(call)(index=0, function=type(call.function)(arguments=call.function.arguments))]
    )
    assert made.model_dump(exclude_unset=True) == {
        "tool_calls": [{"index": 0, "function": {"arguments": call.function.arguments}}]
    }
    assert made.model_dump() == plain.model_dump()
    again = deltas(OPENING + "one two", [])[-1]
    again.tool_calls[0].function.arguments = "x"
    again.content = "y"
    assert made.content is None
    assert made == made.model_copy(deep=True)
