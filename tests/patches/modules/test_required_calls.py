# SPDX-License-Identifier: Apache-2.0
"""Calls in constrained JSON are read alike however the output is cut (E12)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

CALLS: list[dict[str, Any]] = [
    {"name": "f", "parameters": {"a": 'x\\"]}{,[', "b": [1, {"c": "}"}]}},
    {"name": "g", "parameters": {}},
    {"parameters": {"k": 1}, "name": "h"},
    {"name": "i"},
    {"name": "f", "parameters": {"é": "\n\u2028"}},
]


def _read(stream: Any, pieces: list[str]) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    for piece in pieces:
        for delta in stream.feed(piece):
            for one in delta.tool_calls:
                if one.index == len(calls):
                    assert one.id
                    calls.append((one.function.name, ""))
                else:
                    assert one.function.name is None
                name, arguments = calls[one.index]
                calls[one.index] = (name, arguments + one.function.arguments)
    return calls


def _cuts(text: str, longest: int, random_: random.Random) -> list[str]:
    pieces = []
    while text:
        size = random_.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@pytest.mark.parametrize(
    "style", [{}, {"indent": 2}, {"ensure_ascii": False, "separators": (",", ":")}]
)
def test_array(style: dict[str, Any]) -> None:
    from vllm.parser.constrained_calls import CallArray

    text = "\n" + json.dumps(CALLS, **style) + "\n"
    expected = _read(CallArray(), [text])
    assert [(name, json.loads(arguments)) for name, arguments in expected] == [
        (one["name"], one.get("parameters", {})) for one in CALLS
    ]
    random_ = random.Random(20260901)
    for _ in range(300):
        assert _read(CallArray(), _cuts(text, 7, random_)) == expected
    assert _read(CallArray(), list(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "no array",
        "{}",
        '[{"name": 7, "parameters": {}}]',
        '[{"parameters": {}}]',
    ],
)
def test_no_call(text: str) -> None:
    from vllm.parser.constrained_calls import CallArray

    assert _read(CallArray(), list(text)) == []


def test_cut_array() -> None:
    from vllm.parser.constrained_calls import CallArray

    text = json.dumps(CALLS[:1])
    for end in range(len(text)):
        whole, cut = (
            _read(CallArray(), [text[:end]]),
            _read(CallArray(), list(text[:end])),
        )
        assert whole == cut


def test_named() -> None:
    from vllm.parser.constrained_calls import NamedCall

    assert _read(NamedCall("f"), ["\n", ' {"a"', ": 1}"]) == [("f", '{"a": 1}')]
