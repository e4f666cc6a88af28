# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Conversations that a strict chat template refuses, in a form that it takes.

Qwen3.5's template raises for a system message behind the first message, for a
conversation without a user message, and for the role "developer".  Agents send
all three.  What a template takes is never touched.
"""

from __future__ import annotations

from typing import Any

import jinja2

from vllm.logger import init_logger

logger = init_logger(__name__)

_SYSTEM_ROLES = ("system", "developer")
_SYSTEM_FIRST = "System message must be at the beginning"
_REFUSALS = (
    _SYSTEM_FIRST,
    "No user query found in messages",
    "Unexpected message role",
)


def requires_system_first(chat_template: str) -> bool:
    """Whether the template refuses late system messages as Qwen3.5's does."""
    return _SYSTEM_FIRST in chat_template


def apply_chat_template(tokenizer: Any, conversation: list[Any], **kwargs: Any) -> Any:
    """Apply the chat template; once more, fitted, if it refuses the order."""
    try:
        return tokenizer.apply_chat_template(conversation=conversation, **kwargs)
    except jinja2.TemplateError as e:
        if not any(text in str(e) for text in _REFUSALS):
            raise
        fitted = fit_conversation(conversation)
        if fitted == conversation:
            raise
        logger.info_once(
            "The chat template takes a system message first only: a later one "
            "is rendered in its place, in a user turn."
        )
        return tokenizer.apply_chat_template(conversation=fitted, **kwargs)


def fit_conversation(conversation: list[Any]) -> list[Any]:
    """Put a conversation in the form that a strict template takes.

    Every message keeps its place, so what is rendered before a late system
    message stays as it was, and in the prefix cache:

    - System messages at the start become one.
    - A later one becomes a user turn.  Behind tool results it is appended to
      the last of them: a user turn there would make the template drop the
      reasoning of the tool calls before it.  So one that stands between a call
      and its result moves behind the result.
    - Without a user message, an empty user turn follows the system message.
    """
    fitted: list[Any] = []
    for message in _behind_results(conversation):
        role = message["role"]
        if role not in _SYSTEM_ROLES:
            fitted.append(message)
        elif all(one["role"] == "system" for one in fitted):
            first = fitted.pop()["content"] if fitted else None
            content = _join(first, message.get("content"))
            fitted.append({"role": "system", "content": content})
        elif fitted[-1]["role"] == "tool":
            content = _join(fitted[-1].get("content"), message.get("content"))
            fitted[-1] = {**fitted[-1], "content": content}
        else:
            fitted.append({"role": "user", "content": message.get("content")})
    if all(message["role"] != "user" for message in fitted):
        start = 1 if fitted and fitted[0]["role"] == "system" else 0
        fitted.insert(start, {"role": "user", "content": ""})
    return fitted


def _behind_results(conversation: list[Any]) -> list[Any]:
    """Move system messages that stand between calls and a result behind it."""
    moved: list[Any] = []
    waiting: list[Any] = []
    for message in conversation:
        if message["role"] in _SYSTEM_ROLES and moved and moved[-1].get("tool_calls"):
            waiting.append(message)
        elif message["role"] == "tool":
            moved += [message, *waiting]
            waiting = []
        else:
            moved += [*waiting, message]
            waiting = []
    return moved + waiting


def _join(first: Any, second: Any) -> Any:
    """Two contents, strings or lists of parts, with a blank line between."""
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), {"type": "text", "text": "\n\n"}, *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
