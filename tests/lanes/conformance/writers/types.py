"""Conversion by the tool's JSON schema (D9): every schema form, and what it does to the text of a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import call, made, tool

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
}
NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
}
RULE = "decision 10: types"
D9 = "D9: #46924, #47557"

# name: (schema, [(suffix, text, value)])
SIMPLE: dict[str, tuple[dict[str, Any], list[tuple[str, str, Any]]]] = {
    "string": (
        {"type": "string"},
        [
            ("word", "hello", "hello"),
            ("digits", "42", "42"),
            ("leading-zeros", "007", "007"),
            ("null-word", "null", "null"),
            ("true-word", "true", "true"),
            ("json-object", '{"a": 1}', '{"a": 1}'),
            ("json-string", '"quoted"', '"quoted"'),
            ("python-none", "None", "None"),
            ("list", "[1, 2]", "[1, 2]"),
            ("float", "1.50", "1.50"),
        ],
    ),
    "string-enum": ({"type": "string", "enum": ["1", "2"]}, [("digit", "1", "1")]),
    "integer": (
        {"type": "integer"},
        [
            ("positive", "42", 42),
            ("negative", "-7", -7),
            ("zero", "0", 0),
            ("padded", " 5 ", 5),
            (
                "beyond-64-bits",
                "123456789012345678901234567890",
                123456789012345678901234567890,
            ),
            ("no-number", "many", "many"),
        ],
    ),
    "number": (
        {"type": "number"},
        [
            ("fraction", "3.25", 3.25),
            ("whole", "5", 5),
            ("exponent", "1e3", 1000.0),
            ("negative", "-0.5", -0.5),
            ("nan", "NaN", "NaN"),
            ("infinity", "-Infinity", "-Infinity"),
        ],
    ),
    "boolean": (
        {"type": "boolean"},
        [
            ("true", "true", True),
            ("false", "false", False),
            ("python-true", "True", True),
            ("python-false", "False", False),
            ("no-boolean", "perhaps", "perhaps"),
        ],
    ),
    "null": ({"type": "null"}, [("null", "null", None), ("python-none", "None", None)]),
    "object": (
        {"type": "object"},
        [
            ("json", '{"a": 1, "b": [true, null]}', {"a": 1, "b": [True, None]}),
            ("empty", "{}", {}),
            ("pretty", '{\n  "a": {\n    "b": "c"\n  }\n}', {"a": {"b": "c"}}),
            (
                "python-literal",
                "{'a': 1, 'b': None, 'c': True}",
                {"a": 1, "b": None, "c": True},
            ),
            (
                "unicode",
                '{"n": "漢字 🧑‍🚀", "e": "\\u00e9"}',
                {"n": "漢字 🧑‍🚀", "e": "é"},
            ),
            ("broken", '{"a": ', '{"a": '),
            (
                "markup",
                '{"t": "</parameter> <tool_call>"}',
                {"t": "</parameter> <tool_call>"},
            ),
        ],
    ),
    "array": (
        {"type": "array"},
        [
            ("json", '[1, "two", null]', [1, "two", None]),
            ("empty", "[]", []),
            ("python-literal", "['a', 'b', False]", ["a", "b", False]),
            ("nested", "[[1], [[2]]]", [[1], [[2]]]),
            ("objects", '[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ],
    ),
    "enum-untyped": ({"enum": ["fast", "slow"]}, [("word", "fast", "fast")]),
    "enum-numbers": ({"enum": [1, 2]}, [("number", "2", 2)]),
    "const-string": ({"const": "on"}, [("word", "on", "on")]),
    "const-number": ({"const": 5}, [("number", "5", 5)]),
    "untyped": (
        {},
        [
            ("number", "5", "5"),
            ("word", "abc", "abc"),
            ("object", '{"a": 1}', '{"a": 1}'),
            ("null", "null", "null"),
            ("text", "a: b, c", "a: b, c"),
            ("json-string", '"q"', '"q"'),
        ],
    ),
    "any-of-string-integer": (
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        [("zeros", "007", "007"), ("word", "abc", "abc"), ("number", "7", 7)],
    ),
    "any-of-integer-null": (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        [("number", "5", 5), ("null", "null", None), ("python-none", "None", None)],
    ),
    "any-of-string-null": (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        [
            ("word", "abc", "abc"),
            ("null", "null", None),
            ("python-none", "None", "None"),
            ("zeros", "007", "007"),
        ],
    ),
    "any-of-object-array": (
        {"anyOf": [{"type": "object"}, {"type": "array"}]},
        [("object", '{"a": 1}', {"a": 1}), ("array", "[1]", [1])],
    ),
    "one-of-boolean-number": (
        {"oneOf": [{"type": "boolean"}, {"type": "number"}]},
        [("boolean", "true", True), ("number", "2.5", 2.5)],
    ),
    "one-of-string-object": (
        {"oneOf": [{"type": "object"}, {"type": "string"}]},
        [("word", "abc", "abc")],
    ),
    "all-of": ({"allOf": [{"type": "integer"}, {"minimum": 0}]}, [("number", "5", 5)]),
    "type-list-null": (
        {"type": ["string", "null"]},
        [("null", "null", None), ("word", "abc", "abc"), ("zeros", "007", "007")],
    ),
    "type-list-string-integer": ({"type": ["integer", "string"]}, [("number", "7", 7)]),
    # A union with a string in it: what the schema admits, and nothing changed on the way.
    "string-first-integer": (
        {"type": ["string", "integer"]},
        [("number", "7", "7"), ("zeros", "007", "007")],
    ),
    "string-or-strings": (
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        [
            ("array", '["a", "b"]', ["a", "b"]),
            ("python-array", "['a', 'b']", ["a", "b"]),
            ("word", "a", "a"),
            ("bracket", "[sic] he said", "[sic] he said"),
            ("numbers", "[1, 2]", "[1, 2]"),
            ("leading-space", ' ["a"]', ' ["a"]'),
            ("broken", '["a"', '["a"'),
        ],
    ),
    "integer-or-auto": (
        {"anyOf": [{"type": "integer"}, {"const": "auto", "type": "string"}]},
        [
            ("number", "5", 5),
            ("auto", "auto", "auto"),
            ("other", "manual", "manual"),
            ("zeros", "007", "007"),
        ],
    ),
    "auto-or-integer": (
        {"anyOf": [{"enum": ["auto"], "type": "string"}, {"type": "integer"}]},
        [("number", "5", 5), ("auto", "auto", "auto")],
    ),
    "enum-mixed": (
        {"enum": [1, "auto"]},
        [("number", "1", 1), ("auto", "auto", "auto"), ("other", "2", "2")],
    ),
    "enum-digits-or-number": ({"enum": [1, "1"]}, [("number", "1", 1)]),
    "integer-or-string": (
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        [
            ("fraction", "1.50", "1.50"),
            ("date", "2026-11-22", "2026-11-22"),
            ("words", "5 apples", "5 apples"),
            ("minus", "-", "-"),
        ],
    ),
    "number-or-string": (
        {"type": ["number", "string"]},
        [
            ("fraction", "1.5", 1.5),
            ("zeros", "1.50", "1.50"),
            ("exponent", "1e5", "1e5"),
        ],
    ),
    "boolean-or-string": (
        {"type": ["boolean", "string"]},
        [
            ("true", "true", True),
            ("python-true", "True", "True"),
            ("words", "trueish", "trueish"),
        ],
    ),
    "string-or-boolean": ({"type": ["string", "boolean"]}, [("true", "true", "true")]),
    "object-or-string": (
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}},
                    "required": ["a"],
                },
                {"type": "string"},
            ]
        },
        [
            ("object", '{"a": 1}', {"a": 1}),
            ("another", '{"b": 1}', '{"b": 1}'),
            ("brace", "{a}", "{a}"),
            ("null", "null", "null"),
        ],
    ),
    "pattern-or-integer": (
        {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "integer"}]},
        [("number", "12", "12"), ("word", "abc", "abc")],
    ),
    "enum-or-integer": (
        {"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]},
        [("padded", "5 ", 5), ("auto", "auto", "auto")],
    ),
    "big-enum": (
        {"enum": [*(f"s{number}" for number in range(1_500)), 5]},
        [("number", "5", 5), ("word", "s7", "s7")],
    ),
    "words": ({"type": "object"}, [("true", "TRUE", True)]),
    "words-or-integer": ({"type": ["integer", "null"]}, [("true", "TRUE", True)]),
    "long-string-or-integer": (
        {"anyOf": [{"type": "string", "minLength": 3}, {"type": "integer"}]},
        [("short", "12", 12), ("long", "1234", "1234")],
    ),
    "pattern-alone": ({"pattern": "^[0-9]+$"}, [("digits", "12", "12")]),
    "length-alone": ({"minLength": 1, "maxLength": 9}, [("digits", "12", "12")]),
    "format-alone": ({"format": "date"}, [("date", "2026-11-22", "2026-11-22")]),
    "big-number": (
        {"type": "number"},
        [
            ("exponent", "1e23", 1e23),
            ("digits", "0.1000000000000000055511151231257827", 0.1),
        ],
    ),
    "thousands": (
        {"type": "integer"},
        [("comma", "1,000", "1,000"), ("plus", "+5", 5), ("underscore", "1_000", 1000)],
    ),
    "spelled": (
        {"type": "number"},
        [
            ("no-whole", ".5", 0.5),
            ("no-fraction", "5.", 5),
            ("negative", "-.5", -0.5),
            ("leading-zero", "0755", "0755"),
        ],
    ),
    "type-list-integer-null": (
        {"type": ["integer", "null"]},
        [("number", "7", 7), ("null", "null", None)],
    ),
    "nullable": (
        {"type": "string", "nullable": True},
        [("null", "null", None), ("word", "abc", "abc")],
    ),
    "nullable-integer": (
        {"type": "integer", "nullable": True},
        [("null", "null", None), ("number", "3", 3)],
    ),
    "ref-object": (
        {"$ref": "#/$defs/Point"},
        [("json", '{"x": 1, "y": 2.5}', {"x": 1, "y": 2.5})],
    ),
    "ref-integer": ({"$ref": "#/$defs/Count"}, [("number", "12", 12)]),
    "ref-string": ({"$ref": "#/$defs/Name"}, [("digits", "0012", "0012")]),
    "ref-chain": ({"$ref": "#/$defs/Alias"}, [("number", "3", 3)]),
    "ref-recursive": (
        {"$ref": "#/$defs/Node"},
        [
            (
                "json",
                '{"value": 1, "next": {"value": 2}}',
                {"value": 1, "next": {"value": 2}},
            )
        ],
    ),
    "ref-loop": ({"$ref": "#/$defs/Loop"}, [("number", "4", "4")]),
    "ref-definitions": ({"$ref": "#/definitions/Flag"}, [("boolean", "true", True)]),
    "ref-missing": (
        {"$ref": "#/$defs/Nowhere"},
        [("number", "4", "4"), ("word", "abc", "abc")],
    ),
    "ref-in-any-of": (
        {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        [("json", '{"x": 1}', {"x": 1}), ("null", "null", None)],
    ),
    "ref-in-all-of": (
        {"allOf": [{"$ref": "#/$defs/Count"}], "description": "how many"},
        [("number", "9", 9)],
    ),
}
DEFS = {
    "Point": POINT,
    "Count": {"type": "integer"},
    "Name": {"type": "string"},
    "Alias": {"$ref": "#/$defs/Count"},
    "Node": NODE,
    "Loop": {"$ref": "#/$defs/Loop"},
}


def cases() -> Iterator[Case]:
    """One case for each schema form and text."""
    for form, (schema, texts) in SIMPLE.items():
        for suffix, text, want in texts:
            extra: dict[str, Any] = {}
            if "ref" in form:
                extra = {"$defs": DEFS, "definitions": {"Flag": {"type": "boolean"}}}
            tools = [tool("set", {"v": schema}, **extra)]
            source = (
                D9
                if form.startswith(("ref", "untyped", "any", "one", "all", "type-list"))
                or "python" in suffix
                else RULE
            )
            # Conversion does not look at how the answer began: one start with and one without reasoning is enough.
            yield made(
                f"types/{form}-{suffix}",
                f"schema {form}: the text {text[:40]!r}",
                call("set", ("v", text)),
                source=source,
                tools=tools,
                calls=[("set", {"v": want})],
                starts=["plain", "thought"],
            )
    other = {"properties": {"v": {"type": "integer"}}}
    for form, extra, text, want in (
        ("additional-string", {"additionalProperties": {"type": "string"}}, "5", "5"),
        ("additional-integer", {"additionalProperties": {"type": "integer"}}, "5", 5),
        (
            "pattern-ignored",
            {
                "patternProperties": {"^ex": {"type": "string"}},
                "additionalProperties": {"type": "integer"},
            },
            "5",
            5,
        ),
        (
            "pattern-other",
            {
                "patternProperties": {"^no": {"type": "string"}},
                "additionalProperties": {"type": "integer"},
            },
            "5",
            5,
        ),
    ):
        yield made(
            f"types/{form}",
            f"a key without a property of its own: {form}",
            call("set", ("extra", text)),
            source="format: union types",
            calls=[("set", {"extra": want})],
            tools=[tool("set", other["properties"], **extra)],
        )
    yield made(
        "types/undeclared-json",
        "an undeclared parameter whose text is JSON",
        call("set", ("extra", '{"deep": [1]}')),
        source=RULE,
        tools=[tool("set", {"v": {"type": "string"}})],
        calls=[("set", {"extra": '{"deep": [1]}'})],
    )
    yield made(
        "types/undeclared-text",
        "an undeclared parameter whose text is no JSON",
        call("set", ("extra", "no json")),
        source=RULE,
        tools=[tool("set", {"v": {"type": "string"}})],
        calls=[("set", {"extra": "no json"})],
    )
    yield made(
        "types/no-properties",
        "a tool whose schema declares nothing",
        call("set", ("a", "1"), ("b", "x y")),
        source=RULE,
        tools=[{"name": "set", "parameters": {"type": "object"}}],
        calls=[("set", {"a": "1", "b": "x y"})],
    )
    yield made(
        "types/mixed",
        "many types in one call, in the order of the model",
        call(
            "set",
            ("s", "x"),
            ("i", "1"),
            ("f", "0.5"),
            ("b", "false"),
            ("o", '{"k": "v"}'),
            ("a", "[1, 2]"),
            ("n", "null"),
        ),
        source=RULE,
        tools=[
            tool(
                "set",
                {
                    "s": {"type": "string"},
                    "i": {"type": "integer"},
                    "f": {"type": "number"},
                    "b": {"type": "boolean"},
                    "o": {"type": "object"},
                    "a": {"type": "array"},
                    "n": {"type": ["string", "null"]},
                },
            )
        ],
        calls=[
            (
                "set",
                {
                    "s": "x",
                    "i": 1,
                    "f": 0.5,
                    "b": False,
                    "o": {"k": "v"},
                    "a": [1, 2],
                    "n": None,
                },
            )
        ],
    )
    deep = "[" * 6000
    yield made(
        "types/array-very-deep",
        "an array nested too deep for any reader must not break the response",
        call("set", ("v", deep)),
        source="fuzz: no output raises",
        tools=[tool("set", {"v": {"type": "array"}})],
        calls=[("set", {"v": deep})],
        cls="implementation-defined",
        starts=["plain"],
    )
