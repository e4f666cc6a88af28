# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Calls in an output that ``tool_choice`` constrains to JSON, piece by piece.

A named function's output is its arguments.  ``required`` gives an array of
objects with ``name`` and ``parameters``.  The text of the arguments passes as
it was generated, so that the cuts of the output cannot change it.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import regex as re

from vllm.parser.qwen_tool_compat import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    make_tool_call_id,
)

_ARGUMENTS = ("parameters", "arguments")
_MAX_NAME = 1024
_SPACE = re.compile(r"\s*")
# What may end a JSON value or change its nesting, outside and inside strings.
_OUTSIDE = re.compile(r'["{}\[\],]')
_INSIDE = re.compile(r'["\\]')


class _Stream(Protocol):
    def feed(self, text: str) -> list[DeltaMessage]: ...

    def end(self, *how: Any) -> list[DeltaMessage]: ...


def _call_delta(index: int, name: str | None, arguments: str) -> DeltaMessage:
    call = DeltaToolCall(index=index, function=DeltaFunctionCall(arguments=arguments))
    if name is not None:
        call = DeltaToolCall(
            id=make_tool_call_id(func_name=name),
            type="function",
            index=index,
            function=DeltaFunctionCall(name=name, arguments=arguments),
        )
    return DeltaMessage(tool_calls=[call])


class NamedCall:
    """The arguments of the one function that the request names."""

    def __init__(self, name: str) -> None:
        self._name: str | None = name
        self._texts: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether the call is not complete."""
        try:
            json.loads("".join(self._texts))
        except (ValueError, RecursionError):
            return self._name is None
        return False

    def feed(self, text: str) -> list[DeltaMessage]:
        if self._name is not None:
            text = text.lstrip()
        if not text:
            return []
        self._texts.append(text)
        name, self._name = self._name, None
        return [_call_delta(0, name, text)]


class CallArray:
    """An array of calls.  Text that is no such array gives no call."""

    def __init__(self) -> None:
        self._read = self._read_start
        self._held = ""
        self._index = -1
        self._key = ""
        self._name: str | None = None
        self._named = False  # the call's name is sent
        self._value: list[str] = []  # arguments that wait for the name
        self._depth = 0
        self._in_string = False

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and is not complete."""
        between = (self._read_start, self._read_array, self._skip)
        return self._read not in between

    def feed(self, text: str) -> list[DeltaMessage]:
        text = self._held + text
        deltas: list[DeltaMessage] = []
        at = 0
        while at < len(text):
            read = self._read
            after = read(text, at, deltas)
            if after == at and read == self._read:
                break
            at = after
        self._held = text[at:]
        self._send(deltas)
        return deltas

    def _read_start(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        at = _SPACE.match(text, at).end()
        if at == len(text):
            return at
        self._read = self._read_array if text[at] == "[" else self._skip
        return at + 1

    def _skip(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        return len(text)

    def _read_array(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        if text[at] == "{":
            self._name, self._named = None, False
            self._read = self._read_object
        elif text[at] == "]":
            self._read = self._skip
        return at + 1

    def _read_object(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        """Read up to a key and its colon, or to the object's end."""
        at = _SPACE.match(text, at).end()
        if at == len(text):
            return at
        if text[at] == "}":
            self._send(deltas)
            if self._name is not None and not self._named:
                self._value.append("{}")
                self._send(deltas)
            self._value.clear()
            self._read = self._read_array
            return at + 1
        if text[at] != '"':
            return at + 1
        colon = text.find(":", at, at + _MAX_NAME)
        if colon < 0:
            return self._hold_name(text, at)
        self._key = text[at:colon].strip().strip('"')
        if self._key == "name":
            self._read = self._read_name
        else:
            self._depth, self._in_string = 0, False
            self._read = self._read_value_start
        return colon + 1

    def _read_name(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        at = _SPACE.match(text, at).end()
        end = at + 1
        while (match := _INSIDE.search(text, end, at + _MAX_NAME)) is not None:
            if match.group() == '"':
                try:
                    name = json.loads(text[at : match.end()])
                except ValueError:
                    name = None
                self._name = name if isinstance(name, str) else None
                self._index += self._name is not None
                self._read = self._read_object
                return match.end()
            end = match.end() + 1
        return self._hold_name(text, at)

    def _hold_name(self, text: str, at: int) -> int:
        """Wait for the end of a key or name, which is short."""
        if len(text) - at < _MAX_NAME:
            return at
        self._read = self._skip
        return len(text)

    def _read_value_start(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        at = _SPACE.match(text, at).end()
        if at < len(text):
            self._read = self._read_value
        return at

    def _read_value(self, text: str, at: int, deltas: list[DeltaMessage]) -> int:
        search = at
        while True:
            pattern = _INSIDE if self._in_string else _OUTSIDE
            match = pattern.search(text, search)
            if match is None:
                self._take(text[at:])
                return len(text)
            search = match.end()
            character = match.group()
            if character == "\\":
                if search == len(text):  # what it escapes comes later
                    self._take(text[at : match.start()])
                    return match.start()
                search += 1
            elif character == '"':
                self._in_string = not self._in_string
            elif character in "{[":
                self._depth += 1
            elif self._depth == 0:  # behind the value
                self._take(text[at : match.start()].rstrip())
                self._read = self._read_object
                return match.start()
            elif character != ",":
                self._depth -= 1
                if self._depth == 0:
                    self._take(text[at:search])
                    self._read = self._read_object
                    return search

    def _take(self, text: str) -> None:
        if text and self._key in _ARGUMENTS:
            self._value.append(text)

    def _send(self, deltas: list[DeltaMessage]) -> None:
        if self._name is None or not self._value:
            return
        arguments = "".join(self._value)
        self._value.clear()
        name = None if self._named else self._name
        self._named = True
        deltas.append(_call_delta(self._index, name, arguments))


class ConstrainedStream:
    """Reads reasoning like any output, and the answer as calls in JSON.

    Args:
        stream: Splits reasoning from answer.
        tool_choice: The request's, a named function or ``required``.

    """

    def __init__(self, stream: _Stream, tool_choice: Any) -> None:
        self._stream = stream
        name = function_name(tool_choice)
        self._calls = CallArray() if name is None else NamedCall(name)
        self.call_is_cut = False

    def feed(self, text: str) -> list[DeltaMessage]:
        return self._deltas(self._stream.feed(text))

    def end(self, *how: Any) -> list[DeltaMessage]:
        deltas = self._deltas(self._stream.end(*how))
        self.call_is_cut = self._calls.is_open
        return deltas

    def _deltas(self, deltas: list[DeltaMessage]) -> list[DeltaMessage]:
        found: list[DeltaMessage] = []
        for delta in deltas:
            if delta.content is None:
                found.append(delta)
            else:
                found += self._calls.feed(delta.content)
        return found


def function_name(tool_choice: Any) -> str | None:
    """Name of the function that *tool_choice* names, if it names one."""
    function = getattr(tool_choice, "function", tool_choice)
    name = getattr(function, "name", None)
    return name if isinstance(name, str) else None
