# SPDX-License-Identifier: Apache-2.0
"""Values by schema, and bounds on what a request's schema makes the server compute."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import create_autospec

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from vllm.parser.qwen_tool_values import ArgumentsWriter, ToolSchema

#: Seconds; without a bound each of these takes minutes.
LIMIT = 5.0
STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def written(schema: dict[str, Any], *values: tuple[str, str], width: int = 0) -> str:
    """Return JSON text of a call's arguments, its values fed in pieces."""
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
    """Return JSON text of one value, the same whatever pieces it comes in."""
    properties = {"properties": {"v": schema}, **root}
    results = {written(properties, ("v", text), width=width) for width in (0, 1, 7)}
    (result,) = results
    return result.removeprefix('{"v": ').removesuffix("}")


def union(other: Any) -> dict[str, Any]:
    return {"anyOf": [other, STRING]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
    ],
)
def test_number(text: str, expected: str) -> None:
    for schema in (INTEGER, {"type": ["number", "null"]}):
        assert convert(text, schema) == expected
    # It stays text where text is admitted.
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


@pytest.mark.parametrize("additional", [None, True, False, {}, STRING, INTEGER])
def test_an_undeclared_parameter_follows_additional_properties_alone(
    additional: Any,
) -> None:
    patterns = {"^v": STRING if additional == INTEGER else INTEGER}
    schema = {"patternProperties": patterns, "additionalProperties": additional}
    value = "5" if additional == INTEGER else '"5"'
    assert written(schema, ("v", "5")) == f'{{"v": {value}}}'


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
        ({"anyOf": [AUTO, INTEGER]}, "auto ", '"auto"'),
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


@pytest.mark.parametrize(
    "pattern",
    # Two seconds and two gigabytes to compile; exponential to search with.
    ["(?:(?:(?:a|b|c){150}){150}){150}", "(x{1500}){1500}", "^(a|aa)+$"],
)
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


ARRAY = {"type": "array"}
UNHURRIED = settings(deadline=None)  # a busy machine is no failure
#: What escapes, quotes and brackets are told apart by, beside any character.
TEXTS = st.text() | st.text(st.sampled_from("\\\"'/bnux0041d8, \n\t\x1b[]{}()é"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | TEXTS


def data(keys: Any, scalars: Any) -> Any:
    return st.lists(
        st.recursive(
            scalars,
            lambda one: st.lists(one) | st.dictionaries(keys, one),
            max_leaves=8,
        ),
        max_size=4,
    )


@UNHURRIED
@given(data(TEXTS, SCALARS), st.booleans(), st.sampled_from([None, 1]))
def test_json_is_read_as_json_loads_reads_it(
    value: list[Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    said = json.dumps(text, ensure_ascii=ascii_only)
    assert written({"properties": {"v": ARRAY}}, ("v", text)) == f'{{"v": {text}}}'
    assert json.loads(convert(text, ARRAY)) == value
    assert json.loads(convert(said, ARRAY)) == value


@UNHURRIED
@given(data(TEXTS | st.none() | st.integers(), SCALARS), st.sampled_from([str, tuple]))
def test_what_str_writes_is_read_as_python_reads_it(
    value: list[Any], kind: Any
) -> None:
    # Where all strings have an apostrophe, they are double-quoted, as JSON's are.
    value.append("a")
    text = repr(tuple(value) if kind is tuple else value)
    assert json.loads(convert(text, ARRAY)) == json.loads(json.dumps(value))


@UNHURRIED
@given(data(st.text(), st.text()))
def test_raw_control_characters_of_a_string_are_themselves(value: list[Any]) -> None:
    def raw(one: Any) -> str:
        if isinstance(one, str):
            return '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(one, dict):
            return "{" + ", ".join(f"{raw(k)}: {raw(v)}" for k, v in one.items()) + "}"
        return "[" + ", ".join(map(raw, one)) + "]"

    assert json.loads(convert(raw(value), ARRAY)) == value


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value if isinstance(value, list) else value.values():
            yield from strings(one)


ESCAPES = [
    "\\x1b",
    "\\0",
    "\\a",
    "\\\n",
    "\\N{BULLET}",
    "\\U0001f600",
    "\\u0007",
    "\\n",
]


@UNHURRIED
@given(
    data(st.text("ab"), st.lists(st.sampled_from([*ESCAPES, "a", "\n"])).map("".join)),
    st.lists(
        st.tuples(
            st.integers(0, 99), st.sampled_from(["", *ESCAPES, *'\\",:[]{}0xurn #\n'])
        ),
        max_size=4,
    ),
)
def test_no_valid_value_has_characters_that_its_text_has_not(
    value: list[Any], changes: list[tuple[int, str]]
) -> None:
    """Whatever is wrong with JSON: Python's escapes are no part of it."""
    text = json.dumps(value).replace("\\\\", "\\")
    for at, new in changes:
        text = text[:at] + new + text[at + 1 :]
    assume(text.strip())  # without text there is no value
    read = json.loads(convert(text, ARRAY))
    escapes = re.findall(r'(?:\\u[0-9A-Fa-f]{4})+|\\["\\/bfnrt]', text)
    decoded = "".join(json.loads(f'"{one}"') for one in escapes)
    if not isinstance(read, str):
        assert set("".join(strings(read))) <= {*text, *decoded}


@pytest.mark.parametrize(
    "text",
    [
        '["' + '\\"' * 200_000,
        '[True, "' + '\\"' * 200_000,
        "['a', \"" + '\\"' * 30_000,
        "[.5, '" + "\\'" * 30_000,
        '["' + "\\x" * 200_000 + '"]',
        "['" + "\\'" * 30_000,
        "[" + "'\\\n'," * 10_000 + "]",
        '["\n"' + ", " * 200_000 + "]",
        "[" + '"' * 60_001,
        "[" + "'" * 60_001,
        "[\n" * 60_000,
        "(" * 60_000,
        "[" + "r" * 60_000,
        '"' + json.dumps('["\n", ' * 50_000)[1:-1] + '"',
        "[True" * 100_000,
    ],
)
@pytest.mark.parametrize("schema", [ARRAY, union(ARRAY)], ids=["array", "union"])
def test_what_is_no_json_is_known_in_linear_time(schema: Any, text: str) -> None:
    start = time.thread_time()
    assert isinstance(
        json.loads(written({"properties": {"v": schema}}, ("v", text)))["v"], str
    ) == (not text.startswith(("['\\\n", '["\\x')))
    assert time.thread_time() - start < LIMIT / 5


def test_a_python_literal_is_bounded() -> None:
    short, long = (f"['a',{' ' * spaces}]" for spaces in (100, 65_536))
    assert (convert(short, ARRAY), convert(long, ARRAY)) == ('["a"]', json.dumps(long))


def test_white_space_is_held_up_to_a_bound() -> None:
    """So that a value of blanks alone is looked at once."""
    writer = ArgumentsWriter(ToolSchema({"properties": {"v": union(ARRAY)}}))
    opened = writer.begin() + writer.begin_parameter("v") + writer.value(" " * 1_000)
    assert opened == "{"
    assert writer.value(" ") == '"v": "' + " " * 1_001


def test_words_of_a_listed_string_are_written_as_they_come() -> None:
    schema = {"properties": {"city": {"type": "string", "enum": ["New York"]}}}
    writer = ArgumentsWriter(ToolSchema(schema))
    assert writer.begin() + writer.begin_parameter("city") == '{"city": "'
    pieces = [writer.value(piece) for piece in ("New", " ", "York", "\n")]
    assert pieces == ["New", "", " York", ""]
    assert writer.end_value() == '"'


def test_a_lone_surrogate_stays_an_escape() -> None:
    for text in ('"\\ud800"', '"[\\"\\ud800\\"]"', "['\\ud800']", '["\\ud800",]'):
        convert(text, ARRAY).encode()
    assert json.loads(convert('"[\\"\\\\ud800\\"]"', ARRAY)) == ["\ud800"]


def test_a_text_that_an_enum_lists_is_looked_for_in_bounded_time() -> None:
    names = [f"s{n}" for n in range(1_000)]
    many = [{"enum": names, "title": str(n)} for n in range(3_000)]
    null = {"anyOf": [*many, STRING, {"type": "null"}]}
    start = time.thread_time()
    assert written({"properties": {"v": null}}, *[("v", "None")] * 200)
    assert time.thread_time() - start < LIMIT


def test_a_required_key_that_may_be_null_is_not_missing() -> None:
    nullable = [{"type": ["string", "null"]}, {**STRING, "nullable": True}]
    keys = dict(zip("abc", [*nullable, STRING], strict=True))
    assert ToolSchema({"properties": keys, "required": list("abc")}).required == ["c"]


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
    nest = {"type": "array", "items": {"$ref": "#/$defs/nested"}}
    assert convert(value, union(schema), **{"$defs": {"nested": nest}}) == value
    assert convert("x", nested(5_000)) == '"x"'
    assert written({"allOf": [nested(5_000)] * 2}, ("a", "1"))


CHAIN = [*({"$ref": f"#/c/{n + 1}"} for n in range(15)), STRING]


@pytest.mark.parametrize(
    ("method", "count", "schema", "times"),
    [
        ("types", 5_000, STRING, 256),  # no more keys than that are looked at
        ("_target", 200, {"$ref": "#/c/0"}, 16),  # a chain is followed once
    ],
)
def test_a_tool_with_many_required_keys_takes_bounded_work(
    method: str, count: int, schema: Any, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"p{n}" for n in range(count)]
    counted = create_autospec(
        getattr(ToolSchema, method), side_effect=getattr(ToolSchema, method)
    )
    monkeypatch.setattr(ToolSchema, method, counted)
    properties = dict.fromkeys(keys, schema)
    ToolSchema({"properties": properties, "required": keys, "c": CHAIN})
    assert counted.call_count == times
