# SPDX-License-Identifier: Apache-2.0
"""What ``nox -s try`` asks, and when it is content with the answer."""

from __future__ import annotations

import json

from cpu import tryout


def answer(name: str, arguments: dict[str, str], finish: str = "tool_calls") -> bytes:
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {"tool_calls": [{"id": "1", "function": function}]}
    return json.dumps(
        {"choices": [{"message": message, "finish_reason": finish}]}
    ).encode()


def test_only_the_taught_call_is_right() -> None:
    taught = {"content": "a </function> b"}
    assert tryout.faults(answer("write", taught)) == []
    assert tryout.faults(answer("write", {**taught, "content": "a "}))
    assert tryout.faults(answer("read", taught))
    assert tryout.faults(answer("write", taught, finish="length"))
