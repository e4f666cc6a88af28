# SPDX-License-Identifier: Apache-2.0
"""Values by schema, and the bounds on what a request's schema can make the server compute."""

import json
import time
from typing import Any

import pytest
from qwen_tool_values import ArgumentsWriter, ToolSchema

#: Seconds; without a bound each of these takes minutes.
LIMIT = 5.0
#: Two seconds and two gigabytes to compile; exponential to search with.
PATTERNS = ["(?:(?:(?:a|b|c){150}){150}){150}", "(x{1500}){1500}", "^(a|aa)+$"]
STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def written(schema: dict[str, Any], *values: tuple[str, str], width: int = 0) -> str:
    """JSON text of a call's arguments, its values fed in pieces."""
    writer = ArgumentsWriter(ToolSchema(schema))
    pieces = [writer.begin()]
    for key, value in values:
        pieces.append(writer.begin_parameter(key))
        step = width or len(value) or 1
        for start in range(0, len(value), step):
            pieces.append(writer.value(value[start : start + step]))
        pieces.append(writer.end_value())
    return "".join(pieces) + writer.end()


def convert(text: str, schema: Any, **root: Any) -> str:
    """JSON text of one value, the same whatever the pieces are that it comes in."""
    properties = {"properties": {"v": schema}, **root}
    results = {written(properties, ("v", text), width=width) for width in (0, 1, 7)}
    (result,) = results
    return result.removeprefix('{"v": ').removesuffix("}")


def union(other: Any) -> dict[str, Any]:
    return {"anyOf": [other, STRING]}


NUMBERS = [
    ("+5", "5"),
    ("-5", "-5"),
    (".5", "0.5"),
    ("-.5", "-0.5"),
    ("5.", "5"),
    ("1_000", "1000"),
    ("+1_000.50", "1000.50"),
    ("5.e3", "5e3"),
    (" 7\n", "7"),
    ("1e23", "1e23"),
    ("0.1000000000000000055", "0.1000000000000000055"),
    ("0755", '"0755"'),
    ("-007", '"-007"'),
    ("00.5", '"00.5"'),
    ("1,000", '"1,000"'),
    ("1__0", '"1__0"'),
    ("_1", '"_1"'),
    ("+", '"+"'),
    (".", '"."'),
    ("0x10", '"0x10"'),
    ("Infinity", '"Infinity"'),
]


@pytest.mark.parametrize("schema", [INTEGER, {"type": ["number", "null"]}])
@pytest.mark.parametrize(("text", "expected"), NUMBERS)
def test_number(schema: Any, text: str, expected: str) -> None:
    assert convert(text, schema) == expected


@pytest.mark.parametrize("text", [text for text, _ in NUMBERS])
def test_number_stays_text_where_text_is_admitted(text: str) -> None:
    assert convert(text, {"anyOf": [STRING, INTEGER]}) == json.dumps(text)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "what to write"},
        {"nullable": True},
        {"type": "any"},
        True,
        None,
        {"$ref": "#/$defs/nowhere"},
        {"anyOf": [{}, {"description": "anything"}]},
        {"pattern": "^[0-9]+$"},
    ],
)
@pytest.mark.parametrize("text", ['{"a": 1}', "5", "null", "true", '"q"'])
def test_without_a_type_it_is_a_string(schema: Any, text: str) -> None:
    assert convert(text, schema) == json.dumps(text)


@pytest.mark.parametrize("additional", [None, True, False, {}, STRING])
def test_an_undeclared_parameter_is_a_string(additional: Any) -> None:
    schema = {"properties": {}, "additionalProperties": additional}
    assert written(schema, ("v", "5")) == '{"v": "5"}'


def test_an_undeclared_parameter_follows_additional_properties_alone() -> None:
    schema = {
        "patternProperties": {"^v": STRING},
        "additionalProperties": INTEGER,
    }
    assert written(schema, ("v", "5")) == '{"v": 5}'


@pytest.mark.parametrize("text", ["TRUE", "true", "True"])
@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {"type": ["integer", "null"]}, {"type": "boolean"}],
)
def test_words_count_in_any_case(schema: Any, text: str) -> None:
    assert convert(text, schema) == "true"


AUTO = {"type": "string", "enum": ["auto"]}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"anyOf": [AUTO, INTEGER]}, "5 ", "5"),
        ({"anyOf": [AUTO, INTEGER]}, "auto", '"auto"'),
        ({"anyOf": [AUTO, INTEGER]}, "auto ", '"auto "'),
        ({"anyOf": [AUTO, {"type": "array"}]}, " [1]\n", "[1]"),
        ({"anyOf": [AUTO, {"type": "null"}]}, "None", "null"),
        (union(INTEGER), "5 ", '"5 "'),
        (union(INTEGER), "5", "5"),
        (union({"type": "array"}), ' ["a"]', '" [\\"a\\"]"'),
        (
            union({"type": "array"}),
            " " * 1_001 + "[1]",
            json.dumps(" " * 1_001 + "[1]"),
        ),
        (union({"type": "null"}), "null", "null"),
        (union({"type": "null"}), "null ", '"null "'),
        (union({"type": "array"}), "[(1, 2)]", "[[1, 2]]"),
    ],
)
def test_union(schema: Any, text: str, expected: str) -> None:
    assert convert(text, schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [*(f"s{n}" for n in range(3_000)), 5]},
        {"anyOf": [{"enum": [f"s{n}" for n in range(3_000)]}, INTEGER]},
        {"oneOf": [*({"const": f"s{n}"} for n in range(3_000)), INTEGER]},
    ],
    ids=["enum", "enum or integer", "consts or integer"],
)
def test_a_big_enum_changes_no_type(schema: Any) -> None:
    assert convert("5", schema) == "5"


def test_a_key_is_written_with_its_value() -> None:
    """What is cut in a value that does not stream leaves no key behind."""
    schema = {"properties": {"n": INTEGER, "s": STRING, "u": union(INTEGER)}}
    writer = ArgumentsWriter(ToolSchema(schema))
    assert writer.begin() + writer.begin_parameter("s") == '{"s": "'
    assert writer.value("a") + writer.end_value() == 'a"'
    assert writer.begin_parameter("n") + writer.value("12") == ""
    assert writer.end_value() == ', "n": 12'
    assert writer.begin_parameter("u") + writer.value("12") == ""
    assert writer.value("th") == ', "u": "12th'


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_regular_expression_of_a_schema_is_executed(pattern: str) -> None:
    start = time.thread_time()
    text = "a" * 60 + "!"
    assert convert(text, {"type": ["string", "integer"], "pattern": pattern})
    items = {"type": "array", "items": {"pattern": pattern}}
    assert convert(json.dumps([text]), union(items)) == json.dumps([text])
    assert written({"patternProperties": {pattern: INTEGER}}, (text, "5"))
    objects = {"type": "object", "patternProperties": {pattern: False}}
    assert convert('{"a": 1}', union(objects)) == '{"a": 1}'
    assert time.thread_time() - start < 0.5


LONG_REF = {"$ref": "#" + "/a" * 500}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"$ref": "#/$defs/all"}] * 256}}, [1] * 10_000),
        ({"items": {"enum": list(range(10_000))}}, [9_999] * 10_000),
        ({"items": {"$ref": "#" + "/$defs" * 100_000}}, [1] * 10_000),
        ({"items": {"anyOf": [LONG_REF] * 100}}, [1] * 10_000),
        ({"items": {"$ref": "#/$defs/twice"}}, [1] * 10_000),
    ],
    ids=["nodes", "enums", "a long reference", "many references", "exponential"],
)
def test_a_value_is_converted_in_bounded_time(
    schema: dict[str, Any], value: Any
) -> None:
    twice = {f"t{n}": {"anyOf": [{"$ref": f"#/$defs/t{n + 1}"}] * 2} for n in range(60)}
    definitions = {
        "all": {"allOf": [{"type": "integer"}] * 256},
        "twice": {"$ref": "#/$defs/t0"},
        **twice,
        "t60": INTEGER,
    }
    deep: dict[str, Any] = {"$ref": "#/b"}
    for _ in range(500):
        deep = {"a": deep}
    root = {"$defs": definitions, "a": deep["a"], "b": LONG_REF}
    start = time.thread_time()
    schema = {"type": "array", **schema}
    assert json.loads(convert(json.dumps(value), union(schema), **root)) == value
    assert time.thread_time() - start < LIMIT


@pytest.mark.parametrize(
    "parameter",
    [
        {"type": [f"t{n}" for n in range(8_000)], **{f"k{n}": 1 for n in range(8_000)}},
        {"anyOf": [{"type": "string"}] * 8_000, **{f"k{n}": 1 for n in range(8_000)}},
        {"allOf": [{"$ref": "#/$defs/wide"}] * 8_000},
        {"anyOf": [{"$ref": "#/$defs/loop"}] * 8_000},
    ],
    ids=["types", "choices", "references", "loop"],
)
def test_a_parameter_is_opened_in_bounded_time(parameter: dict[str, Any]) -> None:
    definitions = {
        "wide": {f"k{n}": 1 for n in range(20_000)},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}] * 100},
    }
    schema = {"properties": {"a": parameter}, "$defs": definitions}
    start = time.thread_time()
    assert written(schema, *[("a", "")] * 1_000)
    assert time.thread_time() - start < LIMIT


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = INTEGER
    for _ in range(depth):
        schema = {"anyOf": [schema]}
    return schema


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/nested"}, "[" * 180 + "]" * 180),
        ({"type": "object", "required": [["x"]]}, '{"k": 1}'),
        ({"type": "array", "items": nested(5_000)}, "[1]"),
        ({"type": "array", "minItems": "two", "items": [3]}, "[1]"),
        ({"type": "object", "properties": [1], "additionalProperties": 3}, '{"k": 1}'),
    ],
    ids=[
        "depth",
        "a name that is none",
        "a deep schema",
        "odd items",
        "odd properties",
    ],
)
def test_odd_schemas_raise_nothing(schema: dict[str, Any], value: str) -> None:
    definitions = {
        "nested": {"type": "array", "items": {"$ref": "#/$defs/nested"}},
    }
    assert convert(value, union(schema), **{"$defs": definitions}) == value
    assert convert("x", nested(5_000)) == '"x"'
    assert written({"allOf": [nested(5_000)] * 2}, ("a", "1"))
