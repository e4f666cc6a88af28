# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook on the releases before the parser engine: every step's size
gives the same message.

E2 (a step with two boundaries), E3 (a string argument streams), E6 (a call ends the
reasoning) and E7 (reasoning in the step that ends it).
"""

import pytest

from harness import (
    THINKING,
    WIDTHS,
    answer,
    argument_pieces,
    arguments,
    ask,
    call,
    parsed,
)

TWO = "Both.\n" + call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_two_calls_of_one_name(width: int | None) -> None:
    reading = ask(TWO, width)
    assert arguments(reading) == [("read", {"path": "/a"}), ("read", {"path": "/b"})]
    assert (reading.content, reading.finish) == ("Both.", "tool_calls")


@pytest.mark.parametrize("width", [None, *WIDTHS])
@pytest.mark.parametrize(
    ("before", "reasoning"),
    [("I read it.\n", "I read it."), ("Let me\nsee.</think>", "Let me\nsee.")],
)
def test_a_call_or_a_tag_ends_the_reasoning(
    before: str, reasoning: str, width: int | None
) -> None:
    found = answer(before + call("read", ("path", "/a")), width, **THINKING)
    assert found == (reasoning, "", [("read", {"path": "/a"})])


def test_string_argument_streams() -> None:
    text = "".join(f"line {number}\n" for number in range(60))
    pieces = argument_pieces(call("write", ("path", "/a"), ("content", text)), 4)
    assert parsed("".join(pieces)) == {"path": "/a", "content": text}
    assert max(map(len, pieces)) < 60
