# SPDX-License-Identifier: Apache-2.0
"""Proof of quoted-think-end: an answer that mentions ``</think>`` stays whole in the
history, and no part of it becomes reasoning.
"""

from typing import Any

import pytest

from application import application
from harness import CALLED, RESULT, TOOLS, USER

USE = {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "/a"}}
USED = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}],
}
CALLS = {"tool_calls": CALLED["tool_calls"]}
EMPTY = "<think>\n\n</think>\n\n"
TEXTS = [
    "Write </think> behind it.",
    "</think> ends it.",
    "It ends with </think>",
    "Use `<think>` and `</think>`.",
    "One </think>, two </think>, three.",
]


def _turn(text: str) -> str:
    return f"<|im_start|>assistant\n{text}<|im_end|>\n"


def _chat(content: Any, **fields: Any) -> str:
    said = {"role": "assistant", "content": content, **fields}
    behind = RESULT if "tool_calls" in fields else USER
    return application().rendered([USER, said, behind], tools=TOOLS)


def _messages(content: Any, *behind: dict[str, Any]) -> str:
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    messages = [USER, {"role": "assistant", "content": content}, *behind]
    body = {"messages": messages, "tools": tools, "max_tokens": 9}
    application().json("/v1/messages", body)
    return application().history


def _responses(*items: dict[str, Any]) -> str:
    application().json("/v1/responses", {"input": [USER, *items, USER]})
    return application().history


@pytest.mark.parametrize("text", TEXTS)
def test_answer_is_whole(text: str) -> None:
    part = {"type": "text", "text": text}
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [said]}
    for prompt in (
        _chat(text),
        _chat([part]),
        _messages(text, USER),
        _messages([part], USER),
        _responses({"role": "assistant", "content": text}),
        _responses({**message, "status": "completed"}),
    ):
        assert _turn(text) in prompt


@pytest.mark.parametrize("text", TEXTS)
def test_beside_a_call(text: str) -> None:
    """Behind the question, where the template shows reasoning, there is none."""
    part = {"type": "text", "text": text}
    for prompt in (
        _chat(text, **CALLS),
        _chat([part], **CALLS),
        _messages([part, USE], USED),
    ):
        # v0.17.1 and v0.18.1 put a user's turn behind a result of /v1/messages.
        thought = "" if prompt.endswith("user\n<|im_end|>\n") else EMPTY
        assert f"<|im_start|>assistant\n{thought}{text}\n\n<tool_call>\n" in prompt


def test_what_was_not_split_is_as_before() -> None:
    assert _turn("Done.") in _chat("<think>\nHm.\n</think>\n\nDone.")
    assert _turn("Done.") in _chat([{"type": "text", "text": "<think>H</think>Done."}])
    said = _chat("I say </think>.", reasoning="Hm.", **CALLS)
    assert "<think>\nHm.\n</think>\n\nI say </think>." in said


def test_an_answer_to_be_continued_is_as_before() -> None:
    begun = {"role": "assistant", "content": "Hm.\n</think>\n\nThe answer"}
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    body = {"messages": [USER, begun], **fields}
    application().json("/v1/chat/completions", body)
    assert application().prompt.endswith("<think>\nHm.\n</think>\n\nThe answer")


def test_without_a_reasoning_parser() -> None:
    """Nobody has split its answers: the template does."""
    said = {"role": "assistant", "content": "Hm.\n</think>\n\nDone."}
    assert _turn("Done.") in application("none").rendered([USER, said, USER])
