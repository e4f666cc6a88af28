# SPDX-License-Identifier: Apache-2.0
"""Proof of malformed-history: arguments that nobody can parse are the client's fault.

They are JSON, so a release that serves malformed arguments may still fail on these.
"""

from application import application
from harness import DEEP, chat_history


def test_deep_arguments_are_refused() -> None:
    body = {"messages": chat_history(DEEP)}
    status, answer = application().post("/v1/chat/completions", body)
    assert status == 400
    assert "nested too deeply" in answer
