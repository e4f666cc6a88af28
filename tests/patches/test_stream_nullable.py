# SPDX-License-Identifier: Apache-2.0
"""A nullable or untyped string goes out as it is generated (D11)."""

from typing import Any

import pytest

from harness import argument_pieces, call, messages, parsed, tool

LONG = "nulls and words, " * 40


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["null", "string"]},
        {},
    ],
    ids=["anyOf", "type list", "no type"],
)
def test_streams(schema: dict[str, Any]) -> None:
    value = "Some " + LONG
    tools = [tool("f", {"type": "object", "properties": {"text": schema}})]
    text = call("f", ("text", value))
    assert all(
        message.arguments == [("f", {"text": value})]
        for message in messages(text, tools=tools)
    )
    pieces = argument_pieces(text, 1, tools=tools)
    assert parsed("".join(pieces)) == {"text": value}
    sent = sum(map(bool, pieces))
    assert sent > len(value) // 4, "the value came in few large pieces"


@pytest.mark.parametrize(
    ("value", "expected"), [("null", None), ("nul", "nul"), ("null\n", "null\n")]
)
def test_null_is_not_sent_too_early(value: str, expected: str | None) -> None:
    tools = [
        tool(
            "f",
            {"type": "object", "properties": {"text": {"type": ["string", "null"]}}},
        )
    ]
    for message in messages(call("f", ("text", value)), tools=tools):
        assert message.arguments == [("f", {"text": expected})]
