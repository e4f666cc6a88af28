# SPDX-License-Identifier: Apache-2.0
"""Requests that a grammar answers, and what a model means to say to each."""

from collections.abc import Callable, Iterable
from typing import Any

import jsonschema

from conformance.case import Case, Tool

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
    forced = kind.endswith(("required", "named", "calls"))
    if (forced or case.tool_choice == "required") and not begins:
        return False
    strict = "strict" in kind or "JSON" in kind
    return not strict or keeps(case.tools, [(c.name, c.arguments) for c in calls])


def keeps(tools: Iterable[Tool], calls: Iterable[tuple[str, Any]]) -> bool:
    """Whether strict tools take these calls, their keys in the declared order."""
    schemas = {tool.name: tool.parameters for tool in tools}
    return all(
        name in schemas
        and [key for key in schemas[name]["properties"] if key in arguments]
        == list(arguments)
        and valid(arguments, schemas[name])
        for name, arguments in calls
    )


def valid(arguments: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(arguments))
