# SPDX-License-Identifier: Apache-2.0
"""Proof of declared-tools: only a declared tool can be called, all else is text (D5)."""

from __future__ import annotations

import pytest
from harness import Message, call, messages

UNKNOWN = call("unknown", ("x", "1"))


def test_undeclared_name_is_text() -> None:
    text = "Like this:\n" + UNKNOWN + "\nand so on."
    for message in messages(text):
        assert message == Message("", text)


@pytest.mark.parametrize("opening", ["<function=unknown>", "<tool_call>\n<function=>", "<function=write"])
def test_no_name_of_a_tool(opening: str) -> None:
    text = f"See {opening} for that."
    for message in messages(text):
        assert message == Message("", text)


def test_quoted_in_the_reasoning_then_real() -> None:
    text = "The format is\n" + UNKNOWN + "\nas I know.\n</think>\n\n" + call("read", ("path", "/a"))
    for message in messages(text, reasoning=True):
        assert message.reasoning == "The format is\n" + UNKNOWN + "\nas I know.\n"
        assert message.arguments == [("read", {"path": "/a"})]
        assert message.content == ""


def test_real_call_after_a_quoted_one() -> None:
    for message in messages(UNKNOWN + "\nand now\n" + call("read", ("path", "/a"))):
        assert message.content == UNKNOWN + "\nand now"
        assert message.arguments == [("read", {"path": "/a"})]
