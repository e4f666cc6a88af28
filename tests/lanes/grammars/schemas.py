# SPDX-License-Identifier: Apache-2.0
"""Schemas of one parameter, for random walks, and of many, for the mask's cost."""

from typing import Any

_STRING = {"type": "string"}
_OBJECT = {
    "type": "object",
    "properties": {"x": _STRING, "y": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
ONE: dict[str, Any] = {
    "string": _STRING,
    "enum": {**_STRING, "enum": ["a", "b c", "x-1", "null"]},
    "enum, white space": {**_STRING, "enum": [" a", "a ", "a"]},
    "enum, numbers in text": {**_STRING, "enum": ["1", "2.0", "true"]},
    "enum, bounded": {**_STRING, "enum": ["abc", "b"], "minLength": 1, "maxLength": 9},
    "enum, mixed": {"enum": [1, "two", None, True]},
    "enum or null": {"type": ["string", "null"], "enum": ["a", None]},
    "enum of integers": {"type": "integer", "enum": [1, 2, 30]},
    "const": {"const": "a b"},
    "const, number": {"const": 5},
    "pattern": {**_STRING, "pattern": "^[a-c]{1,3}$"},
    "pattern, nullable": {"type": ["string", "null"], "pattern": "^[a-c]+$"},
    "pattern or null": {"anyOf": [{**_STRING, "pattern": "^a b$"}, {"type": "null"}]},
    "pattern of lines": {**_STRING, "pattern": "^([ab]\\n?)*$"},
    "pattern by reference": {"$ref": "#/$defs/code"},
    "date": {**_STRING, "format": "date"},
    "e-mail": {**_STRING, "format": "email"},
    "integer": {"type": "integer"},
    "range": {"type": "integer", "minimum": -3, "maximum": 120},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "string or null": {"type": ["string", "null"]},
    "integer or null": {"type": ["integer", "null"]},
    "integer or string": {"type": ["integer", "string"]},
    "string or list": {"anyOf": [_STRING, {"type": "array", "items": _STRING}]},
    "list": {"type": "array", "items": {"type": "integer"}},
    "list of strings": {"type": "array", "items": _STRING},
    "object": _OBJECT,
    "any object": {"type": "object"},
    "any": {},
}


#: What references lead to.
DEFINITIONS = {"code": {**_STRING, "pattern": "^[0-9]+$"}}


def parameters(**properties: Any) -> dict[str, Any]:
    """A schema of an object with these, all required, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "$defs": DEFINITIONS,
    }


_TEXT = " ".join(f"word {n}" for n in range(100))
#: For the mask's cost, with arguments; a bounded string is what xgrammar's own tag
#: takes longest for.
MANY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bounded strings": (
        parameters(
            path={**_STRING, "maxLength": 300}, content={**_STRING, "maxLength": 4000}
        ),
        {"path": "/a", "content": _TEXT},
    ),
    "an enum of 200": (
        parameters(path={**_STRING, "enum": [f"value-{n}" for n in range(200)]}),
        {"path": "value-150"},
    ),
    "40 parameters": (
        parameters(**{f"key_{n}": _STRING for n in range(40)}),
        {f"key_{n}": _TEXT[:80] for n in range(40)},
    ),
}
