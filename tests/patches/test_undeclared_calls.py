# SPDX-License-Identifier: Apache-2.0
"""Undeclared names are text, but for a whole block at the end of the answer (D5)."""

from __future__ import annotations

import pytest

from harness import Message, call, messages

UNKNOWN = call("unknown", ("x", "1"))


FENCED = f"```xml\n{UNKNOWN}\n```"


@pytest.mark.parametrize(
    "before", ["", "I look it up.\n\n"], ids=["alone", "after text"]
)
@pytest.mark.parametrize(
    "behind", ["", "\n  \n"], ids=["at the end", "white space behind"]
)
def test_whole_block_at_the_end_is_a_call(before: str, behind: str) -> None:
    for message in messages(before + UNKNOWN + behind):
        assert message.arguments == [("unknown", {"x": "1"})]
        assert message.content == before.rstrip()


def test_position_in_its_line_and_last_tag_do_not_matter_at_the_end() -> None:
    for message in messages("Write " + UNKNOWN.removesuffix("</tool_call>")):
        assert message.arguments == [("unknown", {"x": "1"})]
        assert message.content == "Write"


def test_declared_call_behind_decides_it() -> None:
    for message in messages(UNKNOWN + "\n" + call("read", ("path", "/a"))):
        assert message.arguments == [("unknown", {"x": "1"}), ("read", {"path": "/a"})]
        assert message.content == ""


@pytest.mark.parametrize(
    "text",
    [
        FENCED,
        f"Write {UNKNOWN} here.",
        UNKNOWN[: UNKNOWN.index("</parameter>")],
        UNKNOWN + " is a call.",
    ],
)
def test_quoted_or_cut_block_is_text(text: str) -> None:
    for message in messages(text):
        assert message == Message("", text)


def test_request_without_tools_has_no_calls() -> None:
    for message in messages(UNKNOWN, tools=[]):
        assert message == Message("", UNKNOWN)


def test_undeclared_name_is_text() -> None:
    text = "Like this:\n" + UNKNOWN + "\nand so on."
    for message in messages(text):
        assert message == Message("", text)


@pytest.mark.parametrize(
    "opening", ["<function=unknown>", "<tool_call>\n<function=>", "<function=write"]
)
def test_no_name_of_a_tool(opening: str) -> None:
    text = f"See {opening} for that."
    for message in messages(text):
        assert message == Message("", text)


def test_quoted_in_the_reasoning_then_real() -> None:
    text = (
        "The format is\n"
        + UNKNOWN
        + "\nas I know.\n</think>\n\n"
        + call("read", ("path", "/a"))
    )
    for message in messages(text, reasoning=True):
        assert message.reasoning == "The format is\n" + UNKNOWN + "\nas I know.\n"
        assert message.arguments == [("read", {"path": "/a"})]
        assert message.content == ""


def test_real_call_after_a_quoted_one() -> None:
    for message in messages(UNKNOWN + "\nand now\n" + call("read", ("path", "/a"))):
        assert message.content == UNKNOWN + "\nand now"
        assert message.arguments == [("read", {"path": "/a"})]
