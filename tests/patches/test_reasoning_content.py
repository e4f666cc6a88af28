# SPDX-License-Identifier: Apache-2.0
"""Proof of reasoning-content: thoughts that a client sends back under their older name
are in the prompt.
"""

from typing import Any

import pytest

from application import application
from harness import CALLED, RESULT, TOOLS, USER


def _history(content: str | None, **thoughts: str | None) -> str:
    said = CALLED | {"content": content, **thoughts}
    return application().rendered([USER, said, RESULT], tools=TOOLS)


@pytest.mark.parametrize("content", [None, "", "I read it."])
def test_older_name(content: str | None) -> None:
    prompt = _history(content, reasoning_content="I look.")
    assert "<think>\nI look.\n</think>" in prompt
    assert prompt == _history(content, reasoning="I look.")
    assert prompt == _history(content, reasoning=None, reasoning_content="I look.")


def test_a_session_keeps_its_prefix() -> None:
    """Each prompt begins with the one before it and what the model then wrote."""
    messages: list[dict[str, Any]] = [USER]
    fields = {"tools": TOOLS, "chat_template_kwargs": {"enable_thinking": True}}
    written = ""
    for number in range(4):
        application().rendered(messages, **fields)
        assert application().prompt.startswith(written)
        written = application().prompt + f"thought {number}\n</think>\n\n"
        messages += [{**CALLED, "reasoning_content": f"thought {number}"}, RESULT]


def test_the_name_of_today_comes_first() -> None:
    prompt = _history("", reasoning="today", reasoning_content="older")
    assert "<think>\ntoday\n</think>" in prompt
    assert "older" not in prompt


def test_without_thoughts() -> None:
    assert "<think>\n\n</think>" in _history("I read it.")
    assert _history("I read it.", reasoning_content=None) == _history("I read it.")
