# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen3-coder-hook: a literal ``<tool_call>`` deletes nothing (D1)."""

from __future__ import annotations

from typing import Any

import pytest

from harness import TOOLS, Message, call, messages


@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "no tools"])
def test_in_reasoning(tools: list[dict[str, Any]]) -> None:
    text = "I could write <tool_call> here, but why?</think>The answer is 42."
    for message in messages(text, tools=tools, reasoning=True):
        assert message == Message(
            "I could write <tool_call> here, but why?", "The answer is 42."
        )


@pytest.mark.parametrize(
    "reasoning", [True, False], ids=["qwen3", "no reasoning parser"]
)
@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "no tools"])
def test_in_prose(tools: list[dict[str, Any]], reasoning: bool) -> None:
    prose = "A call begins with <tool_call> and ends with </tool_call>. That is all."
    thought = "Easy.</think>" if reasoning else ""
    for message in messages(thought + prose, tools=tools, reasoning=reasoning):
        assert message == Message("Easy." if reasoning else "", prose)


def test_before_a_real_call() -> None:
    text = "First a <tool_call> in prose, then one that counts.\n" + call(
        "read", ("path", "/a")
    )
    for message in messages(text):
        assert message.content == "First a <tool_call> in prose, then one that counts."
        assert message.arguments == [("read", {"path": "/a"})]


def test_real_call_ends_the_reasoning() -> None:
    text = "Not <tool_call> alone, but\n" + call("read", ("path", "/a"))
    for message in messages(text + "\n", reasoning=True):
        assert message.reasoning == "Not <tool_call> alone, but"
        assert message.arguments == [("read", {"path": "/a"})]
        assert message.content == ""


def test_call_in_the_middle_of_the_reasoning_is_text() -> None:
    text = "Not\n" + call("read", ("path", "/a")) + "\nbut text"
    for message in messages(text + "</think>Done.", reasoning=True):
        assert message == Message(text, "Done.")
