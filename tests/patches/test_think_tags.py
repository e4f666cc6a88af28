# SPDX-License-Identifier: Apache-2.0
"""Think tags are frame until the answer has text; then they reach the client."""

from __future__ import annotations

import pytest

from harness import Message, call, messages


@pytest.mark.parametrize("tag", ["<think>", "</think>"])
def test_tag_in_the_answer_is_content(tag: str) -> None:
    for message in messages(f"Easy.</think>I close with {tag} here.", reasoning=True):
        assert message == Message("Easy.", f"I close with {tag} here.")


def test_spans_one_behind_the_other_are_reasoning() -> None:
    for message in messages("a</think>\n<think>b</think>\ndone", reasoning=True):
        assert message == Message("a\nb", "\ndone")


def test_tags_in_a_value() -> None:
    value = "a </think> b <think> c"
    for message in messages(
        "Hm.</think>" + call("write", ("content", value)), reasoning=True
    ):
        assert message.reasoning == "Hm."
        assert message.arguments == [("write", {"content": value})]


def test_span_before_a_call() -> None:
    for message in messages(
        "a</think><think>b</think>" + call("read", ("path", "/a")), reasoning=True
    ):
        assert message.reasoning == "ab"
        assert message.content == ""
        assert message.arguments == [("read", {"path": "/a"})]
