# SPDX-License-Identifier: Apache-2.0
"""Requests that a grammar answers, and what a model means to say to each."""

from collections.abc import Callable, Iterator
from typing import Any

import jsonschema

from conformance.case import Case

Body = dict[str, Any]


def _named(body: Body, surface: str, case: Case) -> None:
    name = case.expected.calls[0].name if case.expected.calls else case.tools[0].name
    body["tool_choice"] = {
        "chat": {"type": "function", "function": {"name": name}},
        "responses": {"type": "function", "name": name},
        "messages": {"type": "tool", "name": name},
    }[surface]


def _required(body: Body, surface: str, case: Case) -> None:
    body["tool_choice"] = {"type": "any"} if surface == "messages" else "required"


def _strict(body: Body, surface: str, case: Case) -> None:
    for tool in body["tools"]:
        tool.get("function", tool)["strict"] = True


def _single(body: Body, surface: str, case: Case) -> None:
    if surface == "messages":
        body["tool_choice"]["disable_parallel_tool_use"] = True
    else:
        body["parallel_tool_calls"] = False


def _format(body: Body, surface: str, case: Case) -> None:
    _strict(body, surface, case)
    if surface == "chat":
        body["response_format"] = {"type": "json_object"}
    else:
        body["text"] = {"format": {"type": "json_object"}}


#: What each does to a request of the suite.
KINDS: dict[str, tuple[Callable[[Body, str, Case], None], ...]] = {
    "required": (_required,),
    "named": (_named,),
    "strict": (_strict,),
    "strict, required": (_strict, _required),
    "strict, named": (_strict, _named),
    "one call": (_single,),
    "one call, required": (_single, _required),
    "JSON or calls": (_format,),
}


def asks(kind: str, surface: str) -> bool:
    """Whether a surface has such requests."""
    return surface != "messages" or not ("strict" in kind or "JSON" in kind)


def change(body: Body, kind: str, surface: str, case: Case) -> Body:
    """Make a request of the suite one of a kind, in place."""
    for step in KINDS[kind]:
        step(body, surface, case)
    return body


def means(kind: str, case: Case) -> bool:
    """Whether a model may say a case's output to a request of a kind."""
    calls = case.expected.calls
    begins = bool(calls) and not (case.expected.content or "").strip()
    if "named" in kind and len({call.name for call in calls}) != 1:
        return False
    if ("required" in kind or "named" in kind or "JSON" in kind) and not begins:
        return False
    strict = "strict" in kind or "JSON" in kind
    return not strict or all(_keeps(case, call) for call in calls)


def _keeps(case: Case, call: Any) -> bool:
    """Whether a call is one that a strict tool takes, its keys in their order."""
    tool = next((tool for tool in case.tools if tool.name == call.name), None)
    if tool is None:
        return False
    keys = [key for key in tool.parameters["properties"] if key in call.arguments]
    return keys == list(call.arguments) and not list(
        _faults(call.arguments, tool.parameters)
    )


def _faults(arguments: Any, schema: dict[str, Any]) -> Iterator[Any]:
    faults: Iterator[Any] = jsonschema.Draft202012Validator(schema).iter_errors(
        arguments
    )
    return faults


def valid(arguments: Any, schema: dict[str, Any]) -> bool:
    """Whether a schema takes arguments."""
    return not list(_faults(arguments, schema))
