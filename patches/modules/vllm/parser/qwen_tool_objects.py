# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Qwen3-Coder tool calls whose parameters have no tags, or garbled ones."""

from __future__ import annotations

import json
from collections.abc import Collection

import regex as re

from .qwen_tool_tokens import Kind, trim_name

# What no argument is lost with: comments, tags without attributes, closing tags of any
# spelling, marks, no value.
_NOTHING = re.compile(
    r"(?:<!--(?:[^-]|-(?!->))*+-->|<[\w:-]{1,64}\s*+/?>|</[\w:-]{1,64}[^<>\n]{0,128}+>?"
    r"|\b(?:None|null)\b|[^\w<])*+"
)
# And where the function has no parameters, words.
_WORDS = re.compile(r"[^<=:{}\[\]]*+")
_GARBLED_PARAMETER = re.compile(r"\s*+<parameter=([^<>\n=]{1,128})([=>])")
# An escape of JSON, or a backslash that begins none.
_BACKSLASH = re.compile(r"(?P<kept>\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4}))|\\'?")


class JsonEnd:
    """Follows the strings and brackets of an object or an array in JSON.

    Attributes:
        length: Characters that were read.
        in_string: Whether a string is open.
        is_whole: Whether the object has ended.
        behind: What the last piece holds behind its end.

    """

    _MARKS = re.compile(r"\\.?|[\"\[\]{}]", re.DOTALL)

    def __init__(self) -> None:
        self._depth = 0
        self._escape = ""  # a backslash whose character is in the next piece
        self.length = 0
        self.in_string = False
        self.is_whole = False
        self.behind = ""

    def add(self, text: str) -> None:
        self.length += len(text)
        text, self._escape = self._escape + text, ""
        for match in () if self.is_whole else self._MARKS.finditer(text):
            mark = match[0]
            if mark == "\\":
                self._escape = mark
            elif mark == '"':
                self.in_string = not self.in_string
            elif not self.in_string and len(mark) == 1:
                self._depth += 1 if mark in "[{" else -1
                if self._depth <= 0:
                    self.is_whole = True
                    text = text[match.end() :]
                    break
        self.behind = text if self.is_whole else ""


def read_json(text: str) -> object:
    """What JSON says, in whose strings raw control characters and backslashes that
    begin no escape are themselves; None if it is no JSON.
    """

    def mend(match: re.Match[str]) -> str:
        return match["kept"] or ("'" if match[0] == "\\'" else "\\\\")

    try:
        value: object = json.loads(_BACKSLASH.sub(mend, text), strict=False)
        json.dumps(value, ensure_ascii=False).encode()  # not with a lone surrogate
    except (ValueError, RecursionError):
        return None
    return value


def read_json_call(text: str) -> tuple[str, dict[str, str]] | None:
    """Name and values, as text, of a call that is written as a JSON object."""
    call = _read_object(text)
    if call is None:
        return None
    name, arguments = call.pop("name", None), call.pop("arguments", {})
    if isinstance(arguments, str):
        arguments = _read_object(arguments)
    if call or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return name, _texts(arguments)


def read_garbled_call(
    body: str, declared: Collection[str]
) -> tuple[dict[str, str], bool]:
    """What can be read of a call whose tags are garbled.

    Args:
        body: What stands between its function's name and its closing tags.
        declared: Parameter names of the function.

    Returns:
        Values, as text, and whether that is all that the body says.

    """
    body = body.strip().removeprefix(">").strip()
    if body.startswith("{"):
        arguments = _read_object(body)
        if arguments is None or not all(key in declared for key in arguments):
            return {}, False
        return _texts(arguments), True
    values: dict[str, str] = {}
    *pieces, rest = body.split(Kind.PARAMETER_END)
    is_all = not rest.strip()
    for piece in pieces:
        match = _GARBLED_PARAMETER.match(piece)
        key = trim_name(match[1]) if match else ""
        if match and key and (match[2] == ">" or key in declared):
            value = piece[match.end() :]
            values[key] = value.removeprefix("\n").removesuffix("\n")
        else:
            is_all = is_all and not piece.strip()
    return values, is_all


def says_nothing(body: str, declared: Collection[str]) -> bool:
    """Whether no argument is lost with the body of a garbled call."""
    is_nothing = _NOTHING.fullmatch(body) is not None
    return is_nothing or (not declared and _WORDS.fullmatch(body) is not None)


def _read_object(text: str) -> dict[str, object] | None:
    value = read_json(text)
    return value if isinstance(value, dict) else None


def _texts(values: dict[str, object]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in values.items()
    }
