# SPDX-License-Identifier: Apache-2.0
"""Values become what the tool's JSON schema says (D9)."""

import time
from typing import Any

import pytest

from harness import arguments, ask, call, messages, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "point": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "endless": {"$ref": "#/$defs/endless"},
    },
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "map": {"type": "object"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "name": {"type": ["string", "null"]},
        "point": {"$ref": "#/$defs/point"},
        "limit": {"$ref": "#/$defs/limit"},
        "endless": {"$ref": "#/$defs/endless"},
        "any": {},
        "level": {"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]},
        "big": {"enum": [*(f"s{number}" for number in range(1_500)), 5]},
    },
}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("text", "null", "null"),
        ("text", " 7\n", " 7\n"),
        ("number", "1e400", float("inf")),
        ("number", "0.5", 0.5),
        ("flag", "True", True),
        ("list", "['a', 1, None]", ["a", 1, None]),
        ("map", "{'a': True}", {"a": True}),
        ("map", '{"a": "\\ud800"}', {"a": "\ud800"}),
        ("map", "[" * 5000, "[" * 5000),
        ("id", "007", "007"),
        ("id", "7", "7"),
        ("name", "null", None),
        ("name", "nullable", "nullable"),
        ("point", '{"x": 1}', {"x": 1}),
        ("limit", "None", None),
        ("limit", "7", 7),
        ("endless", "7", "7"),
        ("any", "7", "7"),
        ("any", '{"a": 1}', '{"a": 1}'),
        ("undeclared", "[1, 2]", "[1, 2]"),
        ("undeclared", "some words", "some words"),
        ("number", "+5", 5),
        ("number", ".5", 0.5),
        ("number", "5.", 5),
        ("number", "1_000", 1000),
        ("number", "0755", "0755"),
        ("map", "TRUE", True),
        ("limit", "TRUE", True),
        ("level", "5 ", 5),
        ("level", "auto", "auto"),
        ("big", "5", 5),
    ],
)
def test_converted(key: str, value: str, expected: Any) -> None:
    for message in messages(call("f", (key, value)), tools=[tool("f", SCHEMA)]):
        assert message.arguments == [("f", {key: expected})]


@pytest.mark.parametrize(
    "pattern", ["(?:(?:(?:a|b|c){150}){150}){150}", "(x{1500}){1500}", "^(a|aa)+$"]
)
def test_no_regular_expression_of_a_schema_is_executed(pattern: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"v": {"type": ["integer", "string"], "pattern": pattern}},
        "patternProperties": {pattern: {"type": "integer"}},
        "additionalProperties": {"type": "string"},
    }
    key, value = "a" * 60 + "!", "12"
    output, tools = call("f", ("v", value), (key, value)), [tool("f", schema)]
    ask(output, 5)  # imports and tokenizers are not what is measured
    start = time.thread_time()
    assert arguments(ask(output, 5, tools=tools)) == [("f", {"v": 12, key: value})]
    assert time.thread_time() - start < 0.5
