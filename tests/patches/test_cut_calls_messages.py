# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-messages: a call that max_tokens or a stop string cut is left out
where its input would have to be an object (E10).
"""

from typing import Any

import pytest

from conformance.host.engine import MODEL
from cutting import (
    ENDS,
    SENT,
    USER,
    WIDTHS,
    read_closed_call,
    read_open_call,
    takes_back,
)
from harness import application


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ["max_tokens", "stop string"])  # it knows no other
def test_an_open_call_stays_open(end: str, width: int | None) -> None:
    reading = read_open_call("messages", end, width)
    assert reading.stopped_by == (ENDS[end][1] or "")
    if end == "max_tokens":
        assert reading.finish == "length"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tag", ["</tool_call>", "</function>"])
def test_a_stop_string_that_closes_the_call_ends_it(
    tag: str, width: int | None
) -> None:
    read_closed_call("messages", tag, width)


def test_the_next_turn_takes_it_back() -> None:
    """Clients that cannot parse the block send what they could read of it."""
    read = {"type": "tool_use", "id": "c", "name": "write", "input": {"path": "/b"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no JSON"}
    turns = [
        USER,
        {"role": "assistant", "content": [read]},
        {"role": "user", "content": [{**result, "is_error": True}]},
    ]
    takes_back("messages", messages=turns)


@pytest.mark.parametrize("end", ["length", "tool_calls"])
def test_a_call_that_was_not_cut_is_not_left_out(end: str) -> None:
    """Whole, but no JSON, as other parsers have it: stock's error stays."""
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionResponse,
    )

    function = {"name": "write", "arguments": SENT[1]}
    calls = [{"id": "c", "type": "function", "function": function}]
    message = {"role": "assistant", "content": "Hm.", "tool_calls": calls}
    fields: dict[str, Any] = {
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": end}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    serving = application("none", "qwen3_coder").state.anthropic_serving_messages
    try:
        response = serving.messages_full_converter(ChatCompletionResponse(**fields))
    except ValueError:
        kinds = None
    else:
        kinds = [block.type for block in response.content]
    assert kinds == (["text"] if end == "length" else None)
