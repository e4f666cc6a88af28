# SPDX-License-Identifier: Apache-2.0
"""Proof of prompt-ends-reasoning: after a prompt that closes the reasoning all is content (E11)."""

from __future__ import annotations

from serving import chat_answer

from harness import Message, streamed

CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


def test_content() -> None:
    assert streamed("The answer.", 1, reasoning=True, prompt=CLOSED) == Message(
        "", "The answer."
    )
    message = chat_answer("The answer.", reasoning=True, prompt=CLOSED)["message"]
    assert message["content"] == "The answer."
    assert not message["reasoning"]
