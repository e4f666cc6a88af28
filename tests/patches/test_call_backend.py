# SPDX-License-Identifier: Apache-2.0
"""Proof of call-backend: a grammar of calls that the backend does not take."""

import json
from typing import Any

import pytest

import grammar
import harness
from harness import call, strings, tool

SCHEMA = strings("path")
PATTERN = {**SCHEMA, "properties": {"path": {"type": "string", "pattern": "^(?!x).*$"}}}
NAMED = {"type": "function", "function": {"name": "read"}}
OTHERS = ("guidance", "outlines", "lm-format-enforcer")


def asked(backend: str, schema: Any, choice: Any) -> tuple[int, str, Any]:
    """Status, text and the engine's parameters of a request with a strict tool."""
    taken = grammar.recorder("none")
    read = tool("read", schema)
    read["function"]["strict"] = True
    body = harness.body_of("chat", "none", False, [])
    body |= {"tools": [read], "tool_choice": choice}
    app = harness.application("none", "qwen3_coder")
    options = taken.config.structured_outputs_config
    before, options.backend = options.backend, backend
    try:
        taken.request = None
        status, answer = harness.post(
            app,
            harness.SURFACES["chat"].PATH,
            body,
            harness.script(call("read", ("path", "/a")), 9),
        )
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


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_required_call_says_what_to_do(backend: str, choice: Any) -> None:
    status, text, _ = asked(backend, SCHEMA, choice)
    assert status == 400
    assert "--structured-outputs-config.backend xgrammar" in text


def test_a_pattern_that_xgrammar_does_not_take() -> None:
    status, text, _ = asked("auto", PATTERN, "required")
    assert status == 400
    assert "leave out `strict`" in text


@pytest.mark.parametrize("backend", ["auto", "xgrammar"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_xgrammar_keeps_it(backend: str, choice: str) -> None:
    status, text, params = asked(backend, SCHEMA, choice)
    assert status == 200, text
    assert params.structured_outputs.structural_tag
