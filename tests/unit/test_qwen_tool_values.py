# SPDX-License-Identifier: Apache-2.0
"""What a request's schema can make the server compute is bounded; the conformance suite has what values become."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "patches" / "files" / "vllm" / "parser"))

from qwen_tool_values import ArgumentsWriter, Patterns, ToolSchema, convert

SLOW = "^(a|aa)+$"  # exponential where it does not match
#: Seconds; without a bound each of these takes minutes.
LIMIT = 5.0


def union(other: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [other, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "string", "pattern": SLOW}}, ["a" * 60 + "!"] * 10_000),
        (
            {"type": "object", "patternProperties": {f"{SLOW[:-1]}{n}$": {} for n in range(100)}},
            {"a" * 50 + f"!{n}": 1 for n in range(1_000)},
        ),
        ({"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/all"}] * 256}}, [1] * 10_000),
        ({"type": "array", "items": {"enum": list(range(10_000))}}, [9_999] * 10_000),
        ({"type": "array", "items": {"$ref": "#" + "/$defs" * 100_000}}, [1] * 10_000),
    ],
    ids=["patterns of items", "patterns of names", "nodes", "enums", "references"],
)
def test_a_value_is_converted_in_bounded_time(schema: dict[str, Any], value: Any) -> None:
    root = {"$defs": {"one": {"type": "integer"}, "all": {"allOf": [{"$ref": "#/$defs/one"}] * 256}}}
    start = time.monotonic()
    assert json.loads(convert(json.dumps(value), union(schema), root)) == value
    assert time.monotonic() - start < LIMIT


def test_names_of_parameters_are_searched_for_in_bounded_time() -> None:
    writer = ArgumentsWriter(
        ToolSchema({"patternProperties": {f"{SLOW[:-1]}{n}$": {} for n in range(100)}}, Patterns())
    )
    start = time.monotonic()
    for number in range(1_000):
        writer.begin_parameter("a" * 50 + f"!{number}")
        writer.end_value()
    assert time.monotonic() - start < LIMIT


@pytest.mark.parametrize(
    "parameter",
    [
        {"type": [f"t{n}" for n in range(8_000)], **{f"k{n}": 1 for n in range(8_000)}},
        {"anyOf": [{"type": "string"}] * 255, **{f"k{n}": 1 for n in range(10_000)}},
        {"allOf": [{"$ref": "#/$defs/wide"}] * 255},
    ],
    ids=["types", "keys", "references"],
)
def test_a_parameter_is_opened_in_bounded_time(parameter: dict[str, Any]) -> None:
    schema = {"properties": {"a": parameter}, "$defs": {"wide": {f"k{n}": 1 for n in range(20_000)}}}
    writer = ArgumentsWriter(ToolSchema(schema, Patterns()))
    start = time.monotonic()
    for _ in range(1_000):
        writer.begin_parameter("a")
        writer.end_value()
    assert time.monotonic() - start < LIMIT


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/nested"}, "[" * 180 + "]" * 180),
        ({"type": "object", "required": [["x"]]}, '{"k": 1}'),
        ({"type": "array", "items": {"pattern": "(?a)(?u)b"}}, '["b"]'),
        ({"type": "array", "items": {"pattern": "a|" * 200_000}}, '["b"]'),
    ],
    ids=["depth", "a name that is none", "flags", "length"],
)
def test_odd_schemas_raise_nothing(schema: dict[str, Any], value: str) -> None:
    root = {"$defs": {"nested": {"type": "array", "items": {"$ref": "#/$defs/nested"}}}}
    start = time.monotonic()
    assert convert(value, union(schema), root) == value
    assert time.monotonic() - start < LIMIT


def test_patterns_still_decide() -> None:
    numbers = {"anyOf": [{"type": "array", "items": {"pattern": "^[0-9]+$"}}, {"type": "string"}]}
    assert convert('["1"]', numbers, {}) == '["1"]'
    assert convert('["x"]', numbers, {}) == '"[\\"x\\"]"'
