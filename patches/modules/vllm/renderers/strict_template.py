# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Requests that a strict chat template refuses, in a form that it takes.

Qwen3.5's template raises for a system message behind the first message, for a
conversation without a user message, for the role "developer", and for a reference
to a tool; Qwen3.8's for a reasoning effort that it does not know.  Agents send all
of these.  What a template takes is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    "Unexpected item type in content",
)
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def requires_system_first(chat_template: str) -> bool:
    """Whether the template refuses late system messages as Qwen3.5's does."""
    return _SYSTEM_FIRST in chat_template


def system_first_template(tokenizer: Any) -> str | None:
    """The tokenizer's own template, if it is such a one."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, str) and requires_system_first(template):
        return template
    return None


def apply_chat_template(
    tokenizer: Any,
    conversation: list[Any],
    *,
    nearest_effort: bool = False,
    reference_names: bool = False,
    **kwargs: Any,
) -> Any:
    """Apply the chat template; once more, fitted, if it refuses the request.

    Args:
        tokenizer: Has the ``apply_chat_template`` that is called.
        conversation: Messages, as the template takes them.
        nearest_effort: Whether the nearest reasoning effort stands in for one that
            the template refuses.
        reference_names: Whether a tool's name stands in for a reference to it.
        kwargs: What the tokenizer's ``apply_chat_template`` takes.

    """
    try:
        return _apply_fitted(tokenizer, conversation, reference_names, kwargs)
    except jinja2.TemplateError:
        for instead in _instead_of(kwargs) if nearest_effort else ():
            fields = {**kwargs, **instead}
            try:
                rendered = _apply_fitted(
                    tokenizer, conversation, reference_names, fields
                )
            except jinja2.TemplateError:
                continue
            logger.info_once(
                "The chat template refuses the reasoning effort %s: it is rendered "
                "with %s.",
                kwargs["reasoning_effort"],
                str(instead),
            )
            return rendered
        raise


def _instead_of(kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What to ask of a template that refuses an effort, the nearest first.

    Of two that are equally near, the higher one.  "none" is no level: it switches
    thinking off, as later releases have it.
    """
    effort = kwargs.get("reasoning_effort")
    if effort == "none" and "enable_thinking" not in kwargs:
        yield {"enable_thinking": False}
    elif effort in _EFFORTS:
        at = _EFFORTS.index(effort)
        others = [level for level in reversed(_EFFORTS) if level != effort]
        for level in sorted(others, key=lambda level: abs(_EFFORTS.index(level) - at)):
            yield {"reasoning_effort": level}


def _apply_fitted(
    tokenizer: Any,
    conversation: list[Any],
    reference_names: bool,
    kwargs: dict[str, Any],
) -> Any:
    try:
        return tokenizer.apply_chat_template(conversation=conversation, **kwargs)
    except jinja2.TemplateError as e:
        if not any(text in str(e) for text in _REFUSALS):
            raise
        fitted = fit_conversation(conversation, reference_names)
        if fitted == conversation:
            raise
        logger.info_once(
            "The chat template takes a system message first only: a later one "
            "is rendered in its place, in a user turn."
        )
        return tokenizer.apply_chat_template(conversation=fitted, **kwargs)


def fit_conversation(
    conversation: list[Any], reference_names: bool = False
) -> list[Any]:
    """Put a conversation in the form that a strict template takes.

    Every message keeps its place, so what is rendered before a late system
    message stays as it was, and in the prefix cache:

    - System messages at the start become one.
    - A later one becomes a user turn.  Behind tool results it is appended to
      the last of them: a user turn there would make the template drop the
      reasoning of the tool calls before it.  So one that stands between a call
      and its result moves behind the result.
    - Without a user message, an empty user turn follows the system message.
    - With ``reference_names``, a reference to a tool, in a tool's result, becomes
      the tool's name, as in templates that take text only.  The tool stands among
      the others.
    """
    fitted: list[Any] = []
    for message in _behind_results(conversation):
        role = message["role"]
        if role == "tool" and reference_names:
            text = _with_references_as_text(message)
            if fitted and _is_rest_of(message, fitted[-1]):
                before = fitted.pop()["content"]
                if before:
                    content = [*_parts(before), {"type": "text", "text": "\n"}]
                    text = {**text, "content": content + text["content"]}
            fitted.append(text)
        elif role not in _SYSTEM_ROLES:
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


def _is_reference(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_reference"


def _with_references_as_text(message: Any) -> Any:
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_is_reference, content)):
        return message
    parts = [
        {"type": "text", "text": ("\n" if number else "") + str(part.get("name") or "")}
        if _is_reference(part)
        else part
        for number, part in enumerate(content)
    ]
    return {**message, "content": parts}


def _is_rest_of(message: Any, earlier: Any) -> bool:
    """Whether /v1/messages made both of one result: its text, its references."""
    content = message.get("content")
    call = message.get("tool_call_id")
    return (
        isinstance(content, list)
        and all(map(_is_reference, content))
        and earlier["role"] == "tool"
        and call is not None
        and earlier.get("tool_call_id") == call
    )


def _join(first: Any, second: Any) -> Any:
    """Two contents, strings or lists of parts, with a blank line between."""
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), {"type": "text", "text": "\n\n"}, *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
