# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Values of a Qwen3-Coder tool call, from text to JSON, as they are generated.

A parameter's value is plain text in the model's output.  Its JSON type follows
from the tool's JSON schema.  A string streams as it is generated; any other
value is converted when it is complete, and its key is written with it.  Nothing
written is ever taken back: what :class:`ArgumentsWriter` returns, joined, is
the JSON text.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

import regex as re

from .qwen_tool_bounds import (
    MAX_CHECKS,
    MAX_DEPTH,
    MAX_PYTHON,
    MAX_REF,
    MAX_REFS,
    MAX_REQUIRED,
    MAX_SCALAR,
)

_TYPE_OF = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_TYPES = frozenset(_TYPE_OF.values())

# Names that request schemas use for JSON types.
_TYPE_ALIASES = {
    "str": "string",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "enum": "string",
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "uint": "integer",
    "uint32": "integer",
    "uint64": "integer",
    "long": "integer",
    "short": "integer",
    "unsigned": "integer",
    "float": "number",
    "float32": "number",
    "float64": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "arr": "array",
    "list": "array",
    "sequence": "array",
}

# Keywords that imply a type where nothing names one.
_KEYWORDS_OF = {
    "object": ("properties", "additionalProperties", "required"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "number": ("minimum", "maximum", "multipleOf"),
}

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Numbers as people write them: a sign, underscores, a bare point.  A leading
# zero means something else, as in the file mode 0755.
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?=[0-9]|\.[0-9])"
    r"(?P<whole>0|[1-9][0-9]*(?:_[0-9]+)*|)"
    r"(?:\.(?P<fraction>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]+)?"
)
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BOOLEANS = ("true", "false", "True", "False")
_NULLS = ("null", "None")


# Schemas.


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class ToolSchema:
    """Schema of a tool's parameters.

    Its regular expressions are never executed, because they come with the
    request and can take any time and memory.

    Args:
        schema: JSON schema of the tool's parameters.

    Attributes:
        names: Declared parameters, through ``$ref``, ``allOf`` and unions.
        required: Those that a call must give, and not as null.
        checks_left: How much may still be checked of the value at hand.

    """

    def __init__(self, schema: Any) -> None:
        self._root: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        # By id of the schema.
        self._types: dict[int, list[str]] = {}
        self._resolved: dict[int, Any] = {}
        self._targets: dict[str, Any] = {}  # by reference
        self._listed: dict[int, bool] = {}
        self.checks_left = MAX_CHECKS
        self._properties: dict[str, Any] = {}
        self._other: Any = None
        for node in self._nodes(self._root):
            own = node.get("properties")
            if isinstance(own, Mapping) and not self._properties:
                self._properties.update(own)  # as most have it, and at once
            elif isinstance(own, Mapping):
                for key in own:
                    self._properties.setdefault(key, own[key])
            if self._other is None:
                self._other = node.get("additionalProperties")
        self.names = self._properties.keys()
        self.required = [
            key
            for key in self._required_keys()
            if "null" not in self.types(self._properties[key])
        ]
        self._required = frozenset(self.required)

    def requires(self, key: str) -> bool:
        """Whether a call must give the parameter, and not as null."""
        return key in self._required

    def takes_json(self, key: str) -> bool:
        """Whether the parameter is an array or an object, and no string."""
        types = self.types(self.parameter(key))
        return "string" not in types and not {"array", "object"}.isdisjoint(types)

    def parameter(self, key: str) -> Any:
        """Schema of parameter *key*, declared or not."""
        return self._properties.get(key, self._other)

    def _nodes(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        """All that *schema* is put together from, in the order of the text."""
        todo: list[Any] = [schema]
        seen: set[int] = set()
        while todo:
            node = self._resolve(todo.pop())
            if id(node) in seen or not isinstance(node, Mapping):
                continue
            seen.add(id(node))
            yield node
            for key in ("oneOf", "anyOf", "allOf"):
                todo.extend(reversed(_list(node.get(key))))

    def _required_keys(self) -> dict[str, None]:
        """Declared parameters that every branch of the schema requires, bounded."""
        keys: dict[str, None] = {}
        todo: list[Any] = [self._root]
        seen: set[int] = set()
        while todo:
            node = self._resolve(todo.pop())
            if id(node) not in seen and isinstance(node, Mapping):
                seen.add(id(node))
                for key in _list(node.get("required")):
                    if isinstance(key, str) and key in self._properties:
                        keys[key] = None
                    if len(keys) == MAX_REQUIRED:
                        return keys
                todo.extend(_list(node.get("allOf")))
        return keys

    def _resolve(self, schema: Any) -> Any:
        """Follow local ``$ref`` pointers (RFC 6901); ``None`` if one is broken."""
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        if id(schema) not in self._resolved:
            self._resolved[id(schema)] = self._find_target(schema)
        return self._resolved[id(schema)]

    def _find_target(self, schema: Any) -> Any:
        for _ in range(MAX_REFS):
            ref = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(ref, str):
                return schema
            if ref not in self._targets:
                self._targets[ref] = self._target(ref)
            schema = self._targets[ref]
        return None

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#") or len(ref) > MAX_REF:
            return None
        schema: Any = self._root
        for part in ref[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, Mapping):
                schema = schema.get(part)
            elif isinstance(schema, list) and part.isdecimal():
                index = int(part[:9])
                schema = schema[index] if index < len(schema) else None
            else:
                return None
        return schema

    def types(self, schema: Any, depth: int = MAX_DEPTH) -> list[str]:
        """Types that *schema* admits, in its order; none if it does not say."""
        schema = self._resolve(schema)
        if depth == 0 or not isinstance(schema, Mapping):
            return []
        if (types := self._types.get(id(schema))) is None:
            self._types[id(schema)] = []  # for a schema that leads to itself
            types = self._find_types(schema, depth - 1)
            if types and schema.get("nullable") is True:
                types.append("null")
            self._types[id(schema)] = types = list(dict.fromkeys(types))
        return types

    def _find_types(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        if types := _named_types(schema):
            return types
        values = [*_list(schema.get("enum")), *_const(schema)]
        if types := [_TYPE_OF.get(type(value), "string") for value in values]:
            return types
        for part in _list(schema.get("allOf")):
            if types := self.types(part, depth):
                return list(types)
        for key in ("anyOf", "oneOf"):
            choices = [self.types(one, depth) for one in _list(schema.get(key))]
            if any(choices):
                return [name for one in choices for name in one or ["string"]]
        for name, keywords in _KEYWORDS_OF.items():
            if any(keyword in schema for keyword in keywords):
                return [name]
        return []

    def admits(self, schema: Any, value: Any, depth: int = MAX_DEPTH) -> bool:
        """Whether *schema* admits *value*, as far as simple keywords say.

        What takes too long to check is admitted.
        """
        self.checks_left -= 1
        if self.checks_left < 0 or depth == 0:
            return True
        schema, depth = self._resolve(schema), depth - 1
        if not isinstance(schema, Mapping):
            return schema is not False
        if value is None and schema.get("nullable") is True:
            return True
        if (types := _named_types(schema)) and not _is_of(value, types):
            return False
        for values in (schema.get("enum"), _const(schema) or None):
            if isinstance(values, list):
                self.checks_left -= len(values)
                if not any(_are_same(value, other) for other in values):
                    return False
        for key in ("anyOf", "oneOf"):
            choices = _list(schema.get(key))
            if choices and not any(self.admits(one, value, depth) for one in choices):
                return False
        if not all(self.admits(p, value, depth) for p in _list(schema.get("allOf"))):
            return False
        if isinstance(value, str):
            return _is_within(len(value), schema, "minLength", "maxLength")
        if isinstance(value, list):
            items = schema.get("items")
            return _is_within(len(value), schema, "minItems", "maxItems") and all(
                self.admits(items, item, depth) for item in value
            )
        if isinstance(value, dict):
            return self._admits_object(schema, value, depth)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _is_within(value, schema, "minimum", "maximum")
        return True

    def has_list(self, schema: Any) -> bool:
        """Whether *schema* has an enum or a const."""
        if (has_list := self._listed.get(id(schema))) is None:
            nodes = self._nodes(schema)
            has_list = any("enum" in node or "const" in node for node in nodes)
            self._listed[id(schema)] = has_list
        return has_list

    def listed(self, schema: Any, text: str) -> str:
        """The text, without white space at its ends if only that is listed."""
        trimmed = text.strip()
        if trimmed == text or self.lists(schema, text):
            return text
        return trimmed if self.lists(schema, trimmed) else text

    def lists(self, schema: Any, text: str) -> bool:
        """Whether an enum or a const of *schema* is *text*.

        What takes too long to check is not.
        """
        for node in self._nodes(schema):
            values = [*_list(node.get("enum")), *_const(node)]
            self.checks_left -= 1 + len(values)
            if self.checks_left < 0:
                return False
            if text in values:
                return True
        return False

    def _admits_object(
        self, schema: Mapping[str, Any], value: dict[str, Any], depth: int
    ) -> bool:
        required = _list(schema.get("required"))
        self.checks_left -= len(required)
        if not all(key in value for key in required if isinstance(key, str)):
            return False
        own = schema.get("properties")
        own = own if isinstance(own, Mapping) else {}
        # Which keys a pattern is for is not known.
        patterns = "patternProperties" in schema
        other = None if patterns else schema.get("additionalProperties")
        return all(
            self.admits(own.get(key, other), item, depth) for key, item in value.items()
        )


def _named_types(schema: Mapping[str, Any]) -> list[str]:
    """Types that a schema names itself, unknown ones left out."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    lower = [name.strip().lower() for name in names if isinstance(name, str)]
    types = [_TYPE_ALIASES.get(name, name) for name in lower]
    return [name for name in types if name in _TYPES]


def _const(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else []


def _is_of(value: Any, types: list[str]) -> bool:
    own = _TYPE_OF[type(value)]
    if own == "number" and value.is_integer():
        own = "integer"  # as JSON Schema has it
    return own in types or (own == "integer" and "number" in types)


def _are_same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal; unlike Python, 1 is not True."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _is_within(number: float, schema: Mapping[str, Any], low: str, high: str) -> bool:
    least, most = schema.get(low), schema.get(high)
    return not (
        (isinstance(least, (int, float)) and number < least)
        or (isinstance(most, (int, float)) and number > most)
    )


# Conversion.


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 1_000 else float(digits)


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_not_json, parse_int=_parse_int)


# Strings, and what is mended outside of them.  A string without an end reaches to
# the text's, so that its characters are looked at once.
_NEARLY_JSON = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?|\b(?:True|False|None)\b|,(?=\s*+[\]}])', re.DOTALL
)
_NEARLY_PYTHON = re.compile(
    r"(?P<raw>\b[Rr])?"
    r"(?P<quote>\"{3}|'{3}|[\"'])(?:[^\"'\\]++|\\.|(?!(?P=quote)).)*+(?:(?P=quote))?"
    r"|\b(?:true|false|null)\b",
    re.DOTALL,
)
# Up to a single-quoted string or a parenthesis, which str() writes.
_PYTHON = re.compile(r"""(?:[^"'(]++|"(?:[^"\\]++|\\.)*+"?)*+['(]""", re.DOTALL)
_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}
_JSON_WORDS = {python: word for word, python in _PYTHON_WORDS.items()}
# In a string: the escapes that count, a backslash that is itself, and characters
# that must be escaped.
_JSON_ESCAPE = re.compile(
    r"(?P<kept>\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4}))|\\'?|[\x00-\x1f]"
)
_PYTHON_ESCAPE = re.compile(
    r"(?P<kept>\\(?:[\\'\"abfnrtv]|[0-7]{1,3}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|U00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4}|N\{[A-Z0-9 -]+\}))|\\|[\x00-\x1f]"
)
# Where a JSON reader stops at what is mended, and at what only Python has.  Most
# text that is no JSON, such as code, stops at something else, and is known at once.
_MENDED_AT = re.compile(r"True|False|None|,?\s*+[\]}]")
_PYTHON_AT = re.compile(
    r"""["'(#0-9._+-]|[BbOoXx][0-9A-Fa-f]|[RrUu]["']|true|false|null"""
)


def _read(text: str) -> tuple[Any, str]:
    """Value and JSON text of what is JSON, nearly JSON or a Python literal.

    JSON stays as it is written: a number keeps all its digits.

    Raises:
        ValueError: It is none of these.

    """
    text = _JSON_WORDS.get(text, text)
    for mend in (str, _mend):
        try:
            return _loads(mended := mend(text)), mended
        except RecursionError:
            raise ValueError("nested too deep") from None
        except json.JSONDecodeError as error:
            stop = error
        if not (stop.msg.startswith("Invalid") or _MENDED_AT.match(stop.doc, stop.pos)):
            break
    if _PYTHON_AT.match(stop.doc, stop.pos) is None:
        raise stop
    return _read_python(text)


def is_json(text: str) -> bool:
    """Whether a text is read as JSON: see *Nearly JSON*."""
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _mend_escape(match: re.Match[str]) -> str:
    text: str = match[0]
    if match["kept"]:
        return text
    return "'" if text == "\\'" else encode_basestring(text)[1:-1]


def _mend_string(string: str, escapes: re.Pattern[str]) -> str:
    if "\\" not in string and string.isprintable():  # as most are
        return string
    mended: str = escapes.sub(_mend_escape, string)
    return mended


def _mend(text: str) -> str:
    """JSON of text that is nearly JSON, as far as it is."""

    def mend(match: re.Match[str]) -> str:
        token: str = match[0]
        if token[0] == '"':
            return _mend_string(token, _JSON_ESCAPE)
        return _JSON_WORDS.get(token, "")

    mended: str = _NEARLY_JSON.sub(mend, text)
    return mended


def _literal(text: str) -> Any:
    """Value of text that is a Python literal, or nearly one.

    Raises:
        ValueError, SyntaxError, TypeError: It is none.
        MemoryError, RecursionError: It is nested too deep.

    """
    escapes = _JSON_ESCAPE  # in double-quoted strings alone none of Python was meant
    if _PYTHON.match(text):
        escapes = _PYTHON_ESCAPE
        if text.isprintable():  # as all that str() writes
            with contextlib.suppress(ValueError, SyntaxError):
                return ast.literal_eval(text)

    def mend(match: re.Match[str]) -> str:
        token: str = match[0]
        if match["quote"] is None:
            return _PYTHON_WORDS[token]
        return token if match["raw"] else _mend_string(token, escapes)

    return ast.literal_eval(_NEARLY_PYTHON.sub(mend, text))


def _read_python(text: str) -> tuple[Any, str]:
    """Value and JSON text of a Python list, dict or tuple.

    Raises:
        ValueError: It is none of these, too long, or has no JSON text.

    """
    if text[:1] not in ("[", "{", "(") or len(text) > MAX_PYTHON:
        raise ValueError("no Python literal that is accepted")
    try:
        value = _literal(text)
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, (list, dict)):
            raise ValueError("no JSON value")
        result = json.dumps(value, ensure_ascii=False, allow_nan=False)
        try:
            result.encode()
        except UnicodeEncodeError:  # a lone surrogate, written as an escape
            result = json.dumps(value)
        return json.loads(result), result
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("no Python literal") from None


def _convert(text: str, types: set[str], *, again: bool = True) -> str:
    """JSON text of a complete value whose schema admits no string.

    A value that is a JSON string is read *again*, once.
    """
    trimmed = text.strip()
    if trimmed in ("0", "1") and types - {"null"} == {"boolean"}:
        return "true" if trimmed == "1" else "false"
    if (word := _WORDS.get(trimmed.lower())) is not None:
        return word
    try:
        value, result = _read(trimmed)
    except ValueError:
        return _json_number(trimmed) or encode_basestring(text)
    # Not with a lone surrogate: it can be written as an escape only.
    if again and isinstance(value, str) and not _SURROGATE.search(value):
        said = _convert(value, types, again=False)
        return result if said.startswith('"') else said
    return result


def _json_number(text: str) -> str | None:
    """JSON text of a number that is written in another way."""
    if (match := _NUMBER.fullmatch(text)) is None:
        return None
    sign = "-" if match["sign"] == "-" else ""
    whole = match["whole"].replace("_", "") or "0"
    fraction = f".{match['fraction']}" if match["fraction"] else ""
    return f"{sign}{whole}{fraction}{match['exponent'] or ''}"


def _convert_union(text: str, schema: Any, tool: ToolSchema) -> str:
    """JSON text of a value that may be a string or something else.

    Where both fit, a list and an object are taken as such, and null if no enum or
    const lists the text; a number or boolean only if the schema names it before the
    string and it would be written just as it is.
    """
    text = tool.listed(schema, text)
    string = encode_basestring(text)
    try:
        value, result = _read(text.strip())
    except ValueError:
        return string
    if isinstance(value, str) or not tool.admits(schema, value):
        return string
    if not tool.admits(schema, text):
        return result
    if isinstance(value, (list, dict)):
        return string if text[0].isspace() else result
    if value is None:
        return result if text in _NULLS and not tool.lists(schema, text) else string
    types = tool.types(schema)
    before = types[: types.index("string")]
    return result if _is_of(value, before) and json.dumps(value) == text else string


# Writing.


class _StringValue:
    """A value that is a string whatever it says."""

    def __init__(self, key: str) -> None:
        self._key = key

    def begin(self) -> str:
        return f'{self._key}"'

    def text(self, text: str) -> str:
        return encode_basestring(text)[1:-1]

    def end(self) -> str:
        return '"'


class _ListedValue:
    """A string whose schema lists values, which white space at its ends may hide."""

    def __init__(self, key: str, tool: ToolSchema, schema: Any) -> None:
        self._key = key
        self._tool = tool
        self._schema = schema
        self._written = ""
        self._held = ""  # white space at its end, or all that begins with some
        self._is_open = True  # whether it is short enough

    def begin(self) -> str:
        return f'{self._key}"'

    def text(self, text: str) -> str:
        if self._is_open:
            self._held += text
            is_at_start = not self._written and self._held[0].isspace()
            text = "" if is_at_start else self._held.rstrip()
            self._is_open = len(self._written) + len(self._held) <= MAX_SCALAR
            text = text if self._is_open else self._held
            self._written += text
            self._held = self._held[len(text) :]
        return encode_basestring(text)[1:-1]

    def end(self) -> str:
        self._tool.checks_left = MAX_CHECKS
        text = self._tool.listed(self._schema, self._written + self._held)
        return encode_basestring(text[len(self._written) :])[1:]


def _may_be_other(start: str, types: set[str]) -> bool:
    """Whether a value that begins so may be something else than a string."""
    trimmed = start[: MAX_SCALAR + 1].strip()
    if not trimmed:
        return len(start) <= MAX_SCALAR
    if trimmed[0] == "[":
        return "array" in types
    if trimmed[0] == "{":
        return "object" in types
    if len(start) > MAX_SCALAR:
        return False
    if "boolean" in types and any(name.startswith(trimmed) for name in _BOOLEANS):
        return True
    if "null" in types and any(name.startswith(trimmed) for name in _NULLS):
        return True
    if types.isdisjoint(("integer", "number")):
        return False
    return _JSON_NUMBER.fullmatch(trimmed, partial=True) is not None


class _LateValue:
    """A value whose type shows later, at its end at the latest.

    Its key is written together with the first that is written of it, so that
    a value which never comes to its end leaves no key without one.
    """

    def __init__(
        self, key: str, tool: ToolSchema, schema: Any, is_required: bool
    ) -> None:
        self._key = key
        self._tool = tool
        self._schema = schema
        self._is_required = is_required
        self._types = set(tool.types(schema))
        self._held: list[str] = []
        self._start = ""  # the first characters, as long as they may decide
        # Whether it may show as a string.
        self._is_open = "string" in self._types and not tool.has_list(schema)
        self._is_string = False

    def begin(self) -> str:
        return ""

    def text(self, text: str) -> str:
        if self._is_string:
            return encode_basestring(text)[1:-1]
        self._held.append(text)
        if not self._is_open:
            return ""
        self._start = start = self._start + text
        if _may_be_other(start, self._types):
            # Only a list or an object takes long to tell.
            self._is_open = start.lstrip()[:1] not in ("[", "{")
            return ""
        self._is_string = True
        return self._key + encode_basestring(start)[:-1]

    def end(self) -> str:
        if self._is_string:
            return '"'
        text = "".join(self._held)
        if "string" in self._types:
            self._tool.checks_left = MAX_CHECKS
            return self._key + _convert_union(text, self._schema, self._tool)
        if not text.strip():
            if "null" in self._types:
                return f"{self._key}null"
            if not self._is_required:
                return ""  # as if it were not given
        return self._key + _convert(text, self._types)


class ArgumentsWriter:
    """Writes the arguments of one call as JSON, piece by piece.

    Every method returns the text that goes on the JSON text.
    """

    def __init__(self, tool: ToolSchema) -> None:
        self._tool = tool
        self._separator = self._last_separator = ""
        self._open(_StringValue(""))

    def _open(self, value: _StringValue | _ListedValue | _LateValue) -> None:
        self._value = value
        self.value = value.text  # for every token: not through a method of ours

    def begin(self) -> str:
        # At once: empty arguments of a call that is cut would be valid to some.
        return "{"

    def begin_parameter(self, key: str) -> str:
        schema = self._tool.parameter(key)
        text = f"{self._separator}{encode_basestring(key)}: "
        self._last_separator, self._separator = self._separator, ", "
        # Without a type it is a string: what looks like JSON may be a file's text.
        if not set(self._tool.types(schema)) <= {"string"}:
            is_required = self._tool.requires(key)
            self._open(_LateValue(text, self._tool, schema, is_required))
        elif self._tool.has_list(schema):
            self._open(_ListedValue(text, self._tool, schema))
        else:
            self._open(_StringValue(text))
        return self._value.begin()

    def end_value(self) -> str:
        text = self._value.end()
        if not text:  # the key is left out
            self._separator = self._last_separator
        return text

    def end(self) -> str:
        return "}"
