# SPDX-License-Identifier: Apache-2.0
"""Proof of malformed-history: arguments that nobody can parse are the client's fault.

They are JSON, so a release that serves malformed arguments may still fail on these.
"""

from __future__ import annotations

from application import application

DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


def test_deep_arguments_are_refused() -> None:
    function = {"name": "read", "arguments": DEEP}
    call = {"id": "c", "type": "function", "function": function}
    history = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    status, answer = application().post("/v1/chat/completions", {"messages": history})
    assert status == 400
    assert "nested too deeply" in answer
