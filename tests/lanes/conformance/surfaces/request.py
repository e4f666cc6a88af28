# SPDX-License-Identifier: Apache-2.0
"""What requests on all surfaces have in common."""

from typing import Any

from conformance import tokens
from conformance.case import Case, Start


def request(
    case: Case,
    start: Start,
    surface: str,
    tools: list[dict[str, Any]],
    tool_choice: Any,
    **more: Any,
) -> dict[str, Any]:
    """Return the body of a request, with the case's own fields for a surface.

    The question names the case, and marks what the chat template must end the prompt
    with; the case's messages stand before it.
    """
    mark = "" if start.prompt == "none" else f" [prompt:{start.prompt}]"
    question = {"role": "user", "content": f"[case:{case.name}]{mark}"}
    body = {"input" if surface == "responses" else "messages": [question], **more}
    if start.enable_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": start.enable_thinking}
    if tools:
        body |= {"tools": tools, "tool_choice": tool_choice}
    if case.stop_string and surface != "responses":  # that API has no stop strings
        body["stop_sequences" if surface == "messages" else "stop"] = [case.stop_string]
    if case.stop_token:
        body["stop_token_ids"] = [tokens.id_of(case.stop_token)]
    own = case.request.get(surface, {})  # type: ignore[call-overload]
    for name, value in own.items():
        body[name] = value + body[name] if name in ("messages", "input") else value
    return body
