# SPDX-License-Identifier: Apache-2.0
"""Calls in constrained JSON are read alike however the output is cut (E12)."""

import json
from typing import Any

import pytest

constrained: Any = pytest.importorskip("vllm.parser.constrained_calls")

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


@pytest.mark.parametrize(
    "style", [{}, {"indent": 2}, {"ensure_ascii": False, "separators": (",", ":")}]
)
def test_array(style: dict[str, Any]) -> None:
    text = "\n" + json.dumps(CALLS, **style) + "\n"
    expected = _read(constrained.CallArray(), [text])
    assert [(name, json.loads(arguments)) for name, arguments in expected] == [
        (one["name"], one.get("parameters", {})) for one in CALLS
    ]
    for width in range(1, 40):
        cuts = [text[at : at + width] for at in range(0, len(text), width)]
        assert _read(constrained.CallArray(), cuts) == expected


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
    assert _read(constrained.CallArray(), list(text)) == []


def test_cut_array() -> None:
    text = json.dumps(CALLS[:1])
    for end in range(len(text)):
        whole, cut = (
            _read(constrained.CallArray(), [text[:end]]),
            _read(constrained.CallArray(), list(text[:end])),
        )
        assert whole == cut


def test_named() -> None:
    assert _read(constrained.NamedCall("f"), ["\n", ' {"a"', ": 1}"]) == [
        ("f", '{"a": 1}')
    ]
