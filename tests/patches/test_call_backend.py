# SPDX-License-Identifier: Apache-2.0
"""Proof of call-backend: a grammar of calls that the backend does not take."""

import json
from typing import Any

import pytest

import grammar
from harness import call, strings, tool

SCHEMA = strings("path")
PATTERN = {**SCHEMA, "properties": {"path": {"type": "string", "pattern": "^(?!x).*$"}}}
NAMED = {"type": "function", "function": {"name": "read"}}
OTHERS = ("guidance", "outlines", "lm-format-enforcer")
XGRAMMAR = "--structured-outputs-config.backend xgrammar"


def asked(backend: str, schema: Any, choice: Any) -> tuple[int, str, Any]:
    """Status, text and the engine's parameters of a request with a strict tool."""
    taken = grammar.recorder("none")
    tools = [tool("read", schema, strict=True)]
    said = call("read", ("path", "/a"))
    options = taken.config.structured_outputs_config
    before, options.backend = options.backend, backend
    try:
        taken.request = None
        status, answer = grammar.post(said, tools=tools, tool_choice=choice)
    finally:
        options.backend = before
    params = taken.request and taken.request.sampling_params
    return status, answer.decode(), params


@pytest.mark.parametrize(
    ("backend", "schema"), [*((one, SCHEMA) for one in OTHERS), ("auto", PATTERN)]
)
def test_auto_goes_without(backend: str, schema: Any) -> None:
    status, text, params = asked(backend, schema, "auto")
    assert status == 200, text
    assert params.structured_outputs is None
    message = json.loads(text)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "read"


@pytest.mark.parametrize(
    ("backend", "schema", "says"),
    [
        *((one, SCHEMA, XGRAMMAR) for one in OTHERS),
        ("auto", PATTERN, "leave out `strict`"),
    ],
)
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_required_call_says_what_to_do(
    backend: str, schema: Any, says: str, choice: Any
) -> None:
    status, text, _ = asked(backend, schema, choice)
    assert status == 400
    assert says in text


@pytest.mark.parametrize("backend", ["auto", "xgrammar"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_xgrammar_keeps_it(backend: str, choice: str) -> None:
    status, text, params = asked(backend, SCHEMA, choice)
    assert status == 200, text
    assert params.structured_outputs.structural_tag
