# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-derenderer: a call that max_tokens cut is whole in no answer that
is made of token ids (E10).
"""

import json
from typing import Any

import pytest

from conformance.host.engine import MODEL, argument_parser, use_cpu_platform
from cutting import OPEN, SENT, USER, WHOLE
from harness import TOOLS, application, ids, post

PATH = "/v1/chat/completions/derender"
REQUEST = {"model": MODEL, "messages": [USER], "tools": TOOLS}


def derendered(output: str, end: str) -> Any:
    """The choice that is made of an output's token ids."""
    use_cpu_platform()  # which the options need to be known
    known = "--enable-scale-out" in argument_parser().format_help()
    app = application("none", "qwen3_coder", *["--enable-scale-out"] * known)
    choice = {"index": 0, "token_ids": ids(output), "finish_reason": end}
    response = {"request_id": "r", "choices": [choice]}
    body = {"model": MODEL, "chat_request": REQUEST, "generate_response": response}
    status, answer = post(app, PATH, body, None)
    assert status == 200, answer
    return json.loads(answer)["choices"][0]


@pytest.mark.parametrize(
    ("output", "end", "sent"),
    [
        (WHOLE + OPEN, "length", SENT),
        # Forgiven at the model's own end.
        (WHOLE + OPEN + "\n</parameter>\n</function>", "length", SENT),
        (WHOLE, "stop", SENT[:1]),
    ],
)
def test_an_open_call_stays_open(output: str, end: str, sent: list[str]) -> None:
    calls = derendered(output, end)["message"]["tool_calls"]
    assert [one["function"]["arguments"] for one in calls] == sent
