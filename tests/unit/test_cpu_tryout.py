# SPDX-License-Identifier: Apache-2.0
"""What ``nox -s try`` asks, and when it is content with the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cpu import transcripts, tryout


def answer(
    name: str, arguments: dict[str, str], finish: str = "tool_calls"
) -> dict[str, Any]:
    call = {"function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": finish}]}


def test_the_request_is_the_transcripts_own() -> None:
    body = tryout.request()
    assert body["messages"][0]["content"] == transcripts.load()[tryout.TRANSCRIPT].user
    assert {tool["function"]["name"] for tool in body["tools"]} == {"write", "read"}


def test_only_the_taught_call_is_right() -> None:
    taught = {"path": "/doc/close.md", "content": "a </function> b"}
    assert tryout.right(answer("write", taught))
    assert not tryout.right(answer("write", {**taught, "content": "a "}))
    assert not tryout.right(answer("read", taught))
    assert not tryout.right(answer("write", taught, finish="length"))
    assert not tryout.right(
        {"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}
    )


@pytest.mark.parametrize("words", [["--mtp", "6"], ["--nonsense"]])
def test_wrong_command_lines_are_refused_before_anything_is_made(
    words: list[str],
) -> None:
    from click.testing import CliRunner

    assert CliRunner().invoke(tryout.command, words).exit_code == 2
