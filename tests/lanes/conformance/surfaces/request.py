# SPDX-License-Identifier: Apache-2.0
"""What requests on all surfaces have in common."""

from typing import Any

from conformance import tokens
from conformance.case import Case, Start


def prompt(case: Case, start: Start) -> str:
    """Return the user message.

    It names the case, and marks what the chat template must end the prompt with.
    """
    mark = "" if start.prompt == "none" else f" [prompt:{start.prompt}]"
    return f"[case:{case.name}]{mark}"


def thinking_switch(start: Start) -> dict[str, Any]:
    """Return the request field that switches thinking off, if the start asks for it."""
    if start.enable_thinking is None:
        return {}
    return {"chat_template_kwargs": {"enable_thinking": start.enable_thinking}}


def with_fields(body: dict[str, Any], case: Case, surface: str) -> dict[str, Any]:
    """Return the request body with the case's own fields for a surface; its messages
    stand before the question.
    """
    if case.stop_string and surface != "responses":  # that API has no stop strings
        body["stop_sequences" if surface == "messages" else "stop"] = [case.stop_string]
    if case.stop_token:
        body["stop_token_ids"] = [tokens.id_of(case.stop_token)]
    own = case.request.get(surface, {})  # type: ignore[call-overload]
    for name, value in own.items():
        body[name] = value + body[name] if name in ("messages", "input") else value
    return body
