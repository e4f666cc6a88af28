# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Answers in the history that mention ``</think>``.

Qwen3.5's template looks for reasoning in the content of an answer that comes back
without: all before the last ``</think>`` is taken for it, and dropped or shown as
reasoning.  A server that has a reasoning parser has split its answers, so a
``</think>`` that is left in one is a quotation.
"""

from __future__ import annotations

from typing import Any

from .params import ChatParams


def keep(messages: list[Any], params: ChatParams, reasoning_parser: str) -> list[Any]:
    """Say of answers that quote ``</think>`` that they have no reasoning.

    An answer that begins with ``<think>`` was not split, and a last one that is to
    be continued is the beginning of an output: both stay as they are.
    """
    if not reasoning_parser:
        return messages
    continued = params.chat_template_kwargs.get("continue_final_message")
    end = len(messages) - 1 if continued else len(messages)
    return [*map(_kept, messages[:end]), *messages[end:]]


def _kept(message: Any) -> Any:
    content = message.get("content")
    if (
        message.get("role") != "assistant"
        or not content
        or message.get("reasoning") is not None
        or message.get("reasoning_content") is not None
    ):
        return message
    if not isinstance(content, str):
        content = list(content)  # pydantic's iterators give their parts once
        message = {**message, "content": content}
    text = content if isinstance(content, str) else "".join(map(_text, content))
    if "</think>" not in text or text.lstrip().startswith("<think>"):
        return message
    return {**message, "reasoning": ""}


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
