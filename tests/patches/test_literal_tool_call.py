# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: a literal ``<tool_call>`` deletes nothing (D1)."""

from typing import Any

import pytest

from harness import TOOLS, Message, call, messages

READ = call("read", ("path", "/a"))
CALLS = [("read", '{"path": "/a"}')]
PROSE = "A call begins with <tool_call> and ends with </tool_call>. That is all."
THOUGHT = "I could write <tool_call> here, but why?"


ANSWERED = Message(THOUGHT, "The answer is 42.")


@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "no tools"])
@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        (f"{THOUGHT}</think>The answer is 42.", True, ANSWERED),
        ("Easy.</think>" + PROSE, True, Message("Easy.", PROSE)),
        (PROSE, False, Message("", PROSE)),
    ],
    ids=["in reasoning", "in prose", "no reasoning parser"],
)
def test_a_mention(
    text: str, reasoning: bool, expected: Message, tools: list[dict[str, Any]]
) -> None:
    for message in messages(text, tools=tools, reasoning=reasoning):
        assert message == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("</think>A <tool_call>.\n" + READ, Message("", "A <tool_call>.", CALLS)),
        (
            "Not <tool_call>, but\n" + READ + "\n",
            Message("Not <tool_call>, but", "", CALLS),
        ),
        (
            "Not\n" + READ + "\nbut</think>Done.",
            Message("Not\n" + READ + "\nbut", "Done."),
        ),
    ],
    ids=["before a call", "a call ends the reasoning", "a call in the reasoning"],
)
def test_beside_a_call(text: str, expected: Message) -> None:
    for message in messages(text, reasoning=True):
        assert message == expected
