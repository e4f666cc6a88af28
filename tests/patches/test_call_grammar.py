# SPDX-License-Identifier: Apache-2.0
"""Proof of call-grammar: the grammar admits what a model writes, and no more."""

from typing import Any

import pytest

from grammar import post, stop
from harness import THINKING, call, strings, tool

ENUM = {"type": "string", "enum": ["r", "w"], "minLength": 1}
WRITE = strings("path", "content")
WRITE["properties"] |= {"mode": ENUM}
WRITE |= {"required": ["path", "content"], "additionalProperties": False}
GREP = {
    "type": "object",
    "properties": {"pattern": {"type": "string"}, "-n": {"type": "boolean"}},
    "required": ["pattern"],
}
SCHEMAS = {"write": WRITE, "Grep": GREP, "now": {"type": "object", "properties": {}}}
TOOLS = [tool(name, schema) for name, schema in SCHEMAS.items()]
STRICT = [tool(name, schema, strict=True) for name, schema in SCHEMAS.items()]
NAMED = {"type": "function", "function": {"name": "write"}}
FIRST = call("write", ("path", "a"), ("content", "x"))
QUOTED = call("rm", ("path", "/"))
CONTENT = f"See:\n{QUOTED}\nNever. </think> <tool_call>\n<function=\n"


@pytest.mark.parametrize("k", [0, 1, 3, 5])
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("tools", [TOOLS, STRICT], ids=["free", "strict"])
def test_calls_as_the_template_writes_them(k: int, choice: str, tools: Any) -> None:
    for output in (
        FIRST,
        call("now"),
        call("Grep", ("pattern", "x"), ("-n", "true")),
        f"{FIRST}\n{call('now')}",
        f"{call('now')}\nThen text, <think> and </think>.",
        f"{FIRST}\n```\n{QUOTED}\n```\nEnd.",
    ):
        assert stop(output, k, tool_choice=choice, tools=tools) is None, output


@pytest.mark.parametrize("k", [0, 3, 5])
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_tool_that_is_not_strict_is_free(k: int, choice: Any) -> None:
    for output in (
        call("write", ("content", "</parameter> ends it"), ("path", "a")),
        call("write", ("path", "a"), ("content", CONTENT)),
        call("write", ("path", "a"), ("zz", "1")),
        call("write"),
    ):
        assert stop(output, k, tool_choice=choice, tools=TOOLS) is None, output


@pytest.mark.parametrize("k", [0, 3])
def test_white_space_behind_the_reasoning(k: int) -> None:
    for space in ("", "\n", "\n\n", "\n\n\n\n", " \n"):
        output = f"Hm.</think>{space}{FIRST}"
        assert stop(output, k, tool_choice="required", tools=TOOLS, **THINKING) is None


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_required_call_comes_first(choice: Any) -> None:
    for output in ("Hi", f"Hi\n{FIRST}", QUOTED, "<tool_call>\n<function=write>\nx"):
        assert stop(output, tool_choice=choice, tools=TOOLS) is not None, output
    refused = stop(call("now"), tool_choice=choice, tools=TOOLS)
    assert (refused is None) == (choice == "required")


@pytest.mark.parametrize(
    "choice", ["auto", "required", NAMED], ids=["auto", "required", "named"]
)
def test_a_strict_tool_takes_what_its_schema_takes(choice: Any) -> None:
    given = ("path", "a"), ("content", "x" * 5_000)
    strict = {"tool_choice": choice, "tools": STRICT}
    assert stop(call("write", *given, ("mode", "w")), **strict) is None
    for wrong in (
        call("write", *given, ("mode", "q")),
        call("write", *given, ("zz", "1")),
        call("write", *given, given[0]),
        call("write", given[0]),
    ):
        assert stop(wrong, **strict) is not None, wrong[-60:]


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_string_of_a_strict_tool_holds_tags(k: int, choice: str) -> None:
    twice, rest = ("content", f"{FIRST}\n```\n{QUOTED}\n```"), ("content", "x")
    for values in (
        (("path", "a"), ("content", "</parameter> alone, </function>, <parameter=b>")),
        (("path", "a"), ("content", f"See:\n{FIRST}\nAnd: <tool_call> </think>")),
        (("path", FIRST), twice, ("mode", "w")),
        (("path", FIRST.replace("\n", "")), rest),
        (("path", "  " + FIRST.replace("\n", "\n  ")), rest, ("mode", "w")),
        # An opening that is text, and what stands about a closing tag.
        (("path", "<tool_call>\n<function=write>\n<parameter=path>\nb"), rest),
        (("path", "<parameter=path>\nb\n</parameter>"), rest, ("mode", "r")),
    ):
        output = call("write", *values)
        assert stop(output, k, tool_choice=choice, tools=STRICT) is None, output


Values = list[tuple[str, str]]


def refused(schema: dict[str, Any], values: Values) -> bool:
    """Whether the grammar of a strict tool refuses a call."""
    tools = [tool("f", schema, strict=True)]
    output = call("f", *values)
    return stop(output, tool_choice="required", tools=tools) is not None


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    """Schema of an object with these properties, of which some are required."""
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
CLOSED = {"additionalProperties": False}
NUMBERS = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}}
REQUIRED: list[Any] = [{"required": ["a"]}, {"required": ["b"]}]
B = {"type": "string", "pattern": "^b"}
EITHER = ("either", "bc")
DAY = {"anyOf": [{"$ref": "#/$defs/day"}, {"type": "null"}]}
KINDS = [
    {"properties": {"kind": {"const": kind}, key: schema}, "required": [key]}
    for kind, key, schema in (("move", "to", STRING), ("wait", "seconds", INTEGER))
]
#: A tool's schema, the values of calls that its grammar takes, and of others.
CALLS: dict[str, tuple[dict[str, Any], list[Values], list[Values]]] = {
    "a string has any length": (
        CLOSED
        | an_object(
            "a",
            "b",
            a={"type": "string", "maxLength": 3},
            b={"type": "array", "items": {"type": "string", "minLength": 9}},
        ),
        [[("a", "abcdef"), ("b", '["x"]')]],
        [[("a", "abc"), ("b", "[1]")]],
    ),
    "a list or an object of which nothing is said": (
        an_object("list", "object", list={"type": "array"}, object={"type": "object"}),
        [[("list", '[1, "x", [{"a": null}]]'), ("object", '{"a": [1]}')]],
        [[("list", "{}"), ("object", "{}")], [("list", "[]"), ("object", "[]")]],
    ),
    "a value is what stands between its newlines": (
        CLOSED
        | {"$defs": {"day": {"type": "string", "format": "date"}}}
        | an_object(
            "code",
            "flag",
            code={"type": "string", "pattern": "^[a-c]+$"},
            day=DAY,
            flag={"type": "boolean"},
        ),
        [
            [("code", "abc"), *day, ("flag", flag)]
            for flag in ("true", "True", "False")
            for day in (
                [("day", "2026-01-31")],
                [("day", "null")],
                [("day", "None")],
                [],
            )
        ],
        [
            [("code", " abc"), ("flag", "true")],
            [("code", "abc\n"), ("flag", "true")],
            [("code", "abc"), ("day", "2026-01-31 "), ("flag", "true")],
            [("code", "abc")],
            [("code", "abc"), ("flag", "None")],
        ],
    ),
    "a pattern within JSON that is not for the whole string": (
        an_object(
            "list",
            "either",
            list={"type": "array", "items": B},
            either={"anyOf": [B, {"type": "null"}]},
            keys={"type": "object", "patternProperties": {"^x": B}},
        ),
        [
            [("list", '["bc"]'), EITHER],
            [("list", "[]"), EITHER, ("keys", '{"xa": "b"}')],
        ],
        [[("list", "[1]"), ("either", "null")]],
    ),
    "the branch that a parameter names": (
        an_object("kind", kind=STRING, note=STRING) | {"oneOf": KINDS},
        [
            [("kind", "move"), ("to", "a")],
            [("kind", "wait"), ("note", "x"), ("seconds", "3")],
        ],
        [
            [("kind", "move"), ("seconds", "3")],
            [("kind", "wait"), ("seconds", "x")],
            [("kind", "stay"), ("to", "a")],
            [("kind", "move")],
        ],
    ),
    "a required key that is not declared": (
        an_object("a", "b", a=STRING),
        [[("a", "x"), ("b", "text")]],
        [[("a", "x")]],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_schema_says(name: str) -> None:
    schema, taken, wrong = CALLS[name]
    for values in taken:
        assert not refused(schema, values), values
    for values in wrong:
        assert refused(schema, values), values


@pytest.mark.parametrize(
    ("pattern", "taken", "not_taken"),
    [
        ("^https?://", ["https://x/y?<b>", "http://a\nb"], ["ftp://x", " http://a"]),
        (r"\.py$", ["a.py", "<a>\n.py"], ["a.pyc", "py"]),
        ("b|c", ["abx", "c"], ["ad"]),
        (r"^\$[0-9]", ["$1.50"], ["1", "$a"]),
        ("[$^]", ["a$b"], ["ab"]),
        ("^(a|b)$", ["a", "b"], ["ab"]),
        # These are not in force.
        ("^a|b$", ["ab", "cb", "x"], []),
        (r"\S", ["a b", "a<b"], []),
        ("a.c", ["xabcx"], []),
        ("^", ["", "x"], []),
    ],
)
def test_a_pattern_is_searched_for(
    pattern: str, taken: list[str], not_taken: list[str]
) -> None:
    schema = CLOSED | an_object("a", a=STRING | {"pattern": pattern}, b=STRING)
    for value in taken:
        assert not refused(schema, [("a", value)]), value
        assert not refused(schema, [("a", value), ("b", "x")]), value
        assert refused(schema, [("a", value), ("zz", "x")]), value
    for value in not_taken:
        assert refused(schema, [("a", value)]), value


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_what_stands_beside_the_properties(key: str) -> None:
    for more in ({}, {"additionalProperties": False}):
        schema = NUMBERS | {key: REQUIRED} | more
        assert not refused(schema, [("a", "1"), ("b", "2")])
        assert refused(schema, [("a", "1")]) == (key == "allOf")
        assert refused(schema, [("b", "1")]) == (key == "allOf")
        inner = {"type": "object", "properties": {"o": schema}, "required": ["o"]}
        assert not refused(inner, [("o", '{"a": 1, "b": 2}')])
        for wrong in ([], [("zz", "1")], [("a", "x")], [("a", "1"), ("b", "x")]):
            assert refused(schema, wrong), wrong
        for value in ("{}", '{"a": "x"}', '{"zz": 1}'):
            assert refused(inner, [("o", value)]), value


def test_what_cannot_be_said_beside_the_properties_is_left_out() -> None:
    for key, branches in (
        ("anyOf", [{"not": {"required": ["b"]}}, {"required": ["b"]}]),
        ("anyOf", [True, REQUIRED[0]]),
        ("oneOf", REQUIRED * 9),
        ("allOf", [{"if": REQUIRED[0], "then": REQUIRED[1]}]),
        ("anyOf", []),
        ("anyOf", None),
        ("oneOf", 5),
    ):
        schema = NUMBERS | {key: branches}
        assert not refused(schema, [("a", "1"), ("b", "2")])
        assert refused(schema, [("a", "x"), ("b", "2")]), branches
        assert refused(schema, [("zz", "1")]), branches


def test_alternatives_within_alternatives_do_not_multiply() -> None:
    schema: dict[str, Any] = NUMBERS
    for _ in range(12):  # 16 alternatives of each are no number that a test waits for
        properties = {"a": schema, "b": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "anyOf": REQUIRED * 8}
    assert not refused(schema, [("b", "1")])
    assert refused(schema, [("b", "x")])


def test_a_schema_that_is_not_well_formed_is_answered() -> None:
    faults: list[dict[str, Any]] = [
        {"$defs": []},
        {"$defs": {"b": []}, "properties": {"a": {"$ref": "#/$defs/b"}}},
        {"required": None},
        {"anyOf": [{"required": [{}]}, {"properties": {"a": 5}}]},
        {"properties": {"a": {"type": "string", "pattern": 5}}},
        {"properties": {"a": {"type": "string", "pattern": "[" * 9_000}}},
        {"properties": {"a": 5}, "anyOf": [{"required": ["a"]}]},
        {"properties": {"a": True}},
    ]
    values: dict[str, list[Any]] = {
        "type": [[{}], 5, None],
        "anyOf": [None, ["string"], {}],
        "enum": [None, 5, "abc"],
    }
    for key, every in values.items():
        faults += ({"properties": {"a": {key: value}}} for value in every)
    for wrong in faults:
        tools = [tool("f", strings("a") | wrong, strict=True)]
        for choice in ("auto", "required"):
            status, answer = post(tools=tools, tool_choice=choice)
            is_clear = status == 400 and b"leave out `strict`" in answer
            assert status == 200 or is_clear, (wrong, answer)
