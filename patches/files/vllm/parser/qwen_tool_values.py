# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Values of a Qwen3-Coder tool call, from text to JSON, as they are generated.

A parameter's value is plain text in the model's output.  Its JSON type follows
from the tool's JSON schema.  A string streams as it is generated; any other
value is converted when it is complete.  Nothing written is ever taken back:
what :class:`ArgumentsWriter` returns, joined, is the JSON text.
"""

from __future__ import annotations

import ast
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

import regex as re

# Bounds on what a request's schema or a model's output can make us do.
_MAX_SCHEMA_NODES = 256
_MAX_TYPES = 16  # that a node names
_MAX_ENUM = 1_000  # whose types are looked at
_MAX_CHECKS = 100_000
_MAX_DEPTH = 64
_MAX_REFS = 16  # that lead on to another
_MAX_REF = 1_024
_MAX_PYTHON_LITERAL = 65_536
_MAX_PATTERN = 1_024
_MAX_PATTERN_TEXT = 4_096
_PATTERN_SECONDS = 0.05  # for all patterns of one output

_TYPE_OF = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

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

# Keywords that only say something about one type.
_KEYWORDS_OF = {
    "object": ("properties", "patternProperties", "additionalProperties", "required"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "multipleOf"),
}

# All keywords that are read, references aside.
_KEYWORDS = (
    *("type", "enum", "const", "nullable", "allOf", "anyOf", "oneOf"),
    *(keyword for keywords in _KEYWORDS_OF.values() for keyword in keywords),
)

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_NUMBER = 1_000  # longer ones are text where text is admitted
_PYTHON_NAMES = {"True": "true", "False": "false", "None": "null"}
_BOOLEANS = ("true", "false", "True", "False")
_NULLS = ("null", "None")

# Characters a JSON text can begin with.
_JSON_START = frozenset('{["-0123456789tfn')


# ── Schemas ───────────────────────────────────────────────────────────


def _resolve(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow local ``$ref`` pointers (RFC 6901); ``None`` where one leads nowhere."""
    for _ in range(_MAX_REFS):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str):
            return schema
        if not ref.startswith("#") or len(ref) > _MAX_REF:
            return None
        target: Any = root
        for part in ref[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and part in target:
                target = target[part]
            elif isinstance(target, list) and part.isdecimal():
                index = int(part[:9])
                target = target[index] if index < len(target) else None
            else:
                return None
        schema = target
    return None


def _nodes(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """*schema* and all that it is put together from, in the order of the text."""
    todo = [schema]
    for _ in range(_MAX_SCHEMA_NODES):
        if not todo:
            return
        node = _resolve(todo.pop(), root)
        if isinstance(node, Mapping):
            yield node
            for key in ("oneOf", "anyOf", "allOf"):
                choices = node.get(key)
                if isinstance(choices, list):
                    todo.extend(reversed(choices))


def _own_types(node: Mapping[str, Any]) -> list[str]:
    """Types that *node* itself names, or that its keywords imply."""
    declared = node.get("type")
    types = []
    for name in declared[:_MAX_TYPES] if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            name = name.strip().lower()
            types.append(_TYPE_ALIASES.get(name, name))
    if not types:
        values = _list(node.get("enum"))[:_MAX_ENUM]
        if "const" in node:
            values.append(node["const"])
        types = [_TYPE_OF[type(value)] for value in values if type(value) in _TYPE_OF]
    if not types and not any(key in node for key in ("anyOf", "oneOf", "allOf")):
        for name, keywords in _KEYWORDS_OF.items():
            if any(key in node for key in keywords):
                types = [name]
                break
    if node.get("nullable") is True:
        types.append("null")
    return list(dict.fromkeys(types))


def _branches(schema: Any, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of *schema*, of one type each, in its order.

    Empty where it says nothing about the type.
    """
    branches: list[dict[str, Any]] = []
    todo: list[tuple[Any, dict[str, Any]]] = [(schema, {})]
    left = _MAX_SCHEMA_NODES
    while todo and left > 0:
        left -= 1
        unresolved, outer = todo.pop()
        node = _resolve(unresolved, root)
        if not isinstance(node, Mapping):
            continue
        merged = {**outer, **_keywords(node)}
        parts = _list(merged.pop("allOf", None))[:left]
        while parts:
            left -= 1
            part = _resolve(parts.pop(0), root)
            if isinstance(part, Mapping):
                merged.update(_keywords(part))
                parts = (_list(merged.pop("allOf", None)) + parts)[:left]
        choices = merged.pop("anyOf", None) or merged.pop("oneOf", None)
        if isinstance(choices, list):
            if merged.pop("nullable", None) is True:
                choices = [*choices, {"type": "null"}]
            todo.extend((choice, merged) for choice in reversed(choices[:left]))
            continue
        branches += ({**merged, "type": name} for name in _own_types(merged))
    return branches


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _keywords(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in _KEYWORDS if key in node}


class Patterns:
    """Searches for the regular expressions in the schemas of one output's calls.

    One that is none or long matches everything; so do all once they took too long.
    """

    def __init__(self) -> None:
        self._seconds = _PATTERN_SECONDS

    def match(self, pattern: Any, text: str) -> bool:
        if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN:
            return True
        if len(text) > _MAX_PATTERN_TEXT or self._seconds <= 0:
            return True
        start = time.thread_time()  # whatever else the machine is doing
        try:
            return re.search(pattern, text, timeout=self._seconds) is not None
        except (re.error, ValueError, OverflowError, TimeoutError, RecursionError):
            return True
        finally:
            self._seconds -= time.thread_time() - start


def _schema_of(nodes: Sequence[Mapping[str, Any]], key: str, patterns: Patterns) -> Any:
    """Schema of a property, which may be none that is listed.

    Args:
        nodes: What the object's schema is put together from, see :func:`_nodes`.
        key: Name of the property.
        patterns: Searches for the regular expressions of the schema.

    """
    other: Any = None
    for node in nodes:
        own = node.get("properties")
        if isinstance(own, Mapping) and key in own:
            return own[key]
        named = node.get("patternProperties")
        if other is None and isinstance(named, Mapping):
            matching = (p for p in named if patterns.match(p, key))
            other = named.get(next(matching, None))
        if other is None:
            other = node.get("additionalProperties")
    return other


class _Checker:
    """Checks values against schemas, as far as the keywords say it simply.

    What takes too long to check is admitted.
    """

    def __init__(self, root: Mapping[str, Any], patterns: Patterns) -> None:
        self._root = root
        self._patterns = patterns
        self._left = _MAX_CHECKS
        self._depth = 0
        # By id: a list's items share their schema.
        self._known: dict[int, tuple[Any, list[Any]]] = {}

    def admits(self, schema: Any, value: Any) -> bool:
        if self._left < 0 or not isinstance(schema, Mapping):
            return schema is not False
        if self._depth == _MAX_DEPTH:
            return True
        branches = self._once(_branches, schema)
        self._depth += 1
        admitted = any(self.branch_admits(branch, value) for branch in branches)
        self._depth -= 1
        return admitted or not branches

    def _once(self, parts_of: Callable[..., Iterable[Any]], schema: Any) -> list[Any]:
        """The parts of a schema, which are looked for once."""
        known = self._known.get(id(schema))
        if known is None:
            known = (schema, list(parts_of(schema, self._root)))
            self._left -= 1 + len(known[1])
            self._known[id(schema)] = known
        return known[1]

    def branch_admits(self, branch: Mapping[str, Any], value: Any) -> bool:
        """Like :meth:`admits`, for one of :func:`_branches`."""
        own, wanted = _TYPE_OF.get(type(value)), branch["type"]
        if own == "number" and float(value).is_integer():
            own = "integer"  # as JSON Schema has it
        if own != wanted and (own, wanted) != ("integer", "number"):
            return False
        required, values = _list(branch.get("required")), branch.get("enum")
        self._left -= 1 + len(required) + len(_list(values))
        if self._left < 0:
            return True
        if isinstance(values, list) and not _is_in(value, values):
            return False
        if "const" in branch and not _is_in(value, [branch["const"]]):
            return False
        if isinstance(value, str):
            return _within(len(value), branch, "minLength", "maxLength") and (
                "pattern" not in branch
                or self._patterns.match(branch["pattern"], value)
            )
        if isinstance(value, list):
            items = branch.get("items", True)
            return _within(len(value), branch, "minItems", "maxItems") and all(
                self.admits(items, item) for item in value
            )
        if isinstance(value, dict):
            nodes = self._once(_nodes, branch)
            self._left -= len(nodes) * len(value)
            return all(
                key in value for key in required if isinstance(key, str)
            ) and all(
                self.admits(_schema_of(nodes, key, self._patterns), item)
                for key, item in value.items()
            )
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _within(value, branch, "minimum", "maximum")
        return True


def _is_in(value: Any, values: Sequence[Any]) -> bool:
    """Whether *value* is one of *values*; unlike Python, 1 is not True."""
    return any(
        value == other and isinstance(value, bool) == isinstance(other, bool)
        for other in values
    )


def _within(number: float, schema: Mapping[str, Any], low: str, high: str) -> bool:
    least, most = schema.get(low), schema.get(high)
    return not (
        (isinstance(least, (int, float)) and number < least)
        or (isinstance(most, (int, float)) and number > most)
    )


# ── Conversion ────────────────────────────────────────────────────────


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 1_000 else float(digits)


def _parse_json(text: str) -> Any:
    """Value of a JSON text.

    Raises:
        ValueError: It is none.

    """
    try:
        return json.loads(text, parse_constant=_not_json, parse_int=_parse_int)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _is_finite(value: Any) -> bool:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return False
        if isinstance(item, (list, tuple)):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
    return True


def _parse_python(text: str) -> tuple[Any, str]:
    """Value of a Python list, dict, tuple or name, and its JSON text.

    Raises:
        ValueError: It is none of these, too long, or has no JSON text.

    """
    if text in _PYTHON_NAMES:
        return json.loads(_PYTHON_NAMES[text]), _PYTHON_NAMES[text]
    if text[:1] not in ("[", "{", "(") or len(text) > _MAX_PYTHON_LITERAL:
        raise ValueError("no Python literal that is accepted")
    try:
        value = ast.literal_eval(text)
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, (list, dict)) or not _is_finite(value):
            raise ValueError("no JSON value")
        result = json.dumps(value, ensure_ascii=False)
        try:
            result.encode()
        except UnicodeEncodeError:  # a lone surrogate, written as an escape
            result = json.dumps(value)
        return value, result
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("no Python literal") from None


def _read(text: str) -> tuple[Any, str]:
    """Value and JSON text of what is JSON or a Python literal.

    JSON stays as it is written: a number keeps all its digits.

    Raises:
        ValueError: It is neither.

    """
    if not text.startswith("("):
        try:
            return _parse_json(text), text
        except ValueError:
            pass
    return _parse_python(text)


def convert(text: str, schema: Any, root: Mapping[str, Any]) -> str:
    """JSON text of a complete value.

    Args:
        text: The value as the model wrote it.
        schema: Schema of the parameter.
        root: Schema of all parameters, to which references are relative.

    """
    return _convert(text, _branches(schema, root), _Checker(root, Patterns()))


def _convert(
    text: str, branches: Sequence[Mapping[str, Any]], checker: _Checker
) -> str:
    types = {branch["type"] for branch in branches}
    if "string" in types:
        return _convert_union(text, branches, checker)
    trimmed = text.strip()
    if types == {"boolean"} and trimmed in ("0", "1"):
        return "true" if trimmed == "1" else "false"
    if types & {"boolean", "null"} and trimmed.lower() in ("true", "false", "null"):
        trimmed = trimmed.lower()
    try:
        return _read(trimmed)[1] if types else _json_text(trimmed)
    except ValueError:
        return encode_basestring(text)


def _json_text(text: str) -> str:
    _parse_json(text)
    return text


def _convert_union(
    text: str, branches: Sequence[Mapping[str, Any]], checker: _Checker
) -> str:
    """JSON text of a value that may be a string or something else.

    Where both fit, a list, an object and ``null`` are taken as such, a number or
    boolean only if the schema names it before the string and it would be written
    just as it is.
    """
    string = encode_basestring(text)
    if len(branches) == 1:
        return string
    try:
        value, result = _read(text.strip())
    except ValueError:
        return string
    if isinstance(value, str) or not _may_be_other(text, {b["type"] for b in branches}):
        return string
    admitted = [checker.branch_admits(branch, value) for branch in branches]
    if True not in admitted:
        return string
    as_text = [checker.branch_admits(branch, text) for branch in branches]
    if True not in as_text or isinstance(value, (list, dict)):
        return result
    if value is None:
        return result if text == "null" else string
    comes_first = admitted.index(True) < as_text.index(True)
    return result if comes_first and json.dumps(value) == text else string


# ── Writing ───────────────────────────────────────────────────────────


class _StringValue:
    """A value that is a string whatever it says."""

    def begin(self) -> str:
        return '"'

    def text(self, text: str) -> str:
        return encode_basestring(text)[1:-1]

    def end(self) -> str:
        return '"'


def _may_be_other(start: str, types: set[str]) -> bool:
    """Whether a value that begins so may be something else than a string.

    Only a list or an object takes long to tell.
    """
    if start[:1] == "[":
        return "array" in types
    if start[:1] == "{":
        return "object" in types
    if "boolean" in types and any(name.startswith(start) for name in _BOOLEANS):
        return True
    if "null" in types and any(name.startswith(start) for name in _NULLS):
        return True
    if types.isdisjoint(("integer", "number")) or len(start) > _MAX_NUMBER:
        return False
    return _NUMBER.fullmatch(start, partial=True) is not None


class _LateValue:
    """A value whose type shows later, at its end at the latest."""

    def __init__(self, tool: ToolSchema, branches: Sequence[Mapping[str, Any]]) -> None:
        self._tool = tool
        self._branches = branches
        self._types = {branch["type"] for branch in branches}
        self._held: list[str] = []
        self._is_string = False
        self._start = ""  # the first characters, as long as they may decide

    def begin(self) -> str:
        return ""

    def text(self, text: str) -> str:
        if self._is_string:
            return encode_basestring(text)[1:-1]
        self._held.append(text)
        if not self._shows_string(text):
            return ""
        self._is_string = True
        return encode_basestring("".join(self._held))[:-1]

    def _shows_string(self, text: str) -> bool:
        """Whether the value can only be a string, now that *text* has come."""
        if not self._types:
            self._start = self._start or text.lstrip()[:1]
            return bool(self._start) and self._start not in _JSON_START
        if "string" not in self._types:
            return False
        start = self._start
        if start[:1] not in ("[", "{"):
            self._start = start = start + text
        return not _may_be_other(start, self._types)

    def end(self) -> str:
        if self._is_string:
            return '"'
        checker = _Checker(self._tool.root, self._tool.patterns)
        return _convert("".join(self._held), self._branches, checker)


class ToolSchema:
    """Schema of a tool's parameters, each taken apart once.

    Args:
        schema: JSON schema of the tool's parameters.
        patterns: Searches for its regular expressions.

    Attributes:
        names: Declared parameters, through ``$ref``, ``allOf`` and unions.
        root: The schema, to which its references are relative.

    """

    def __init__(self, schema: Any, patterns: Patterns) -> None:
        self.root = schema if isinstance(schema, Mapping) else {}
        self.patterns = patterns
        self._nodes = list(_nodes(schema, self.root))
        own = (node.get("properties") for node in self._nodes)
        self.names = {key for keys in own if isinstance(keys, Mapping) for key in keys}
        # By id: a schema may be that of many undeclared parameters.
        self._known: dict[int, list[dict[str, Any]]] = {}

    def branches(self, key: str) -> list[dict[str, Any]]:
        """The alternatives of the schema of parameter *key*."""
        schema = _schema_of(self._nodes, key, self.patterns)
        if (known := self._known.get(id(schema))) is None:
            known = self._known[id(schema)] = _branches(schema, self.root)
        return known


class ArgumentsWriter:
    """Writes the arguments of one call as JSON, piece by piece.

    Every method returns the text that goes on the JSON text.
    """

    def __init__(self, tool: ToolSchema) -> None:
        self._tool = tool
        self._separator = "{"
        self._open(_StringValue())

    def _open(self, value: _StringValue | _LateValue) -> None:
        self._value = value
        self.value = value.text  # for every token: not through a method of ours

    def begin_parameter(self, key: str) -> str:
        branches = self._tool.branches(key)
        is_string = bool(branches) and all(b["type"] == "string" for b in branches)
        self._open(_StringValue() if is_string else _LateValue(self._tool, branches))
        text = f"{self._separator}{encode_basestring(key)}: {self._value.begin()}"
        self._separator = ", "
        return text

    def end_value(self) -> str:
        return self._value.end()

    def end(self) -> str:
        return "{}" if self._separator == "{" else "}"
