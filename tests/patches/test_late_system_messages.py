# SPDX-License-Identifier: Apache-2.0
"""Proof of late-system-messages: what Qwen3.5's template refuses is rendered in
place, and the prompt's beginning stays.
"""

import json
from typing import Any

import pytest

from application import QWEN3_CODER, application
from harness import TOOLS, USER

SYSTEM = {"role": "system", "content": "Be brief."}
LATE = {"role": "system", "content": "It is late."}
ANSWER = {"role": "assistant", "content": "Hi"}


def _turn(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def _call(number: int) -> list[dict[str, Any]]:
    """A call and its result."""
    function = {"name": "read", "arguments": json.dumps({"path": f"{number}"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    said = {
        "role": "assistant",
        "content": "",
        "reasoning": f"thought {number}",
        "tool_calls": [call],
    }
    return [
        said,
        {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": f"result {number}",
        },
    ]


START, HELLO = _turn("system", "Be brief."), _turn("user", "Hello")
BOTH = _turn("system", "Be brief.\n\nIt is late.")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([SYSTEM, LATE, USER], BOTH + HELLO),
        ([SYSTEM, USER, LATE], START + HELLO + _turn("user", "It is late.")),
        ([USER, LATE, USER], HELLO + _turn("user", "It is late.") + HELLO),
        (
            [SYSTEM, USER, ANSWER, LATE, USER],
            START
            + HELLO
            + _turn("assistant", "Hi")
            + _turn("user", "It is late.")
            + HELLO,
        ),
        ([SYSTEM], START + _turn("user", "")),
        ([SYSTEM, LATE], BOTH + _turn("user", "")),
        (
            [SYSTEM, ANSWER],
            START + _turn("user", "") + _turn("assistant", "<think>\n\n</think>\n\nHi"),
        ),
    ],
    ids=[
        "second",
        "last",
        "middle",
        "behind-answer",
        "system-alone",
        "systems-alone",
        "no-user",
    ],
)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_refused_order_is_rendered(
    messages: list[dict[str, Any]], expected: str, role: str
) -> None:
    messages = [
        {**one, "role": role} if one["role"] == "system" else one for one in messages
    ]
    assert application().rendered(messages) == expected
    as_parts = [
        {**one, "content": [{"type": "text", "text": one["content"]}]}
        for one in messages
    ]
    assert application().rendered(as_parts) == expected


def _item(role: str, text: str) -> dict[str, Any]:
    """An input item as Codex sends it."""
    return {
        "type": "message",
        "role": role,
        "content": [{"type": "input_text", "text": text}],
    }


@pytest.mark.parametrize("role", ["system", "developer"])
def test_responses(role: str) -> None:
    hello, late = _item("user", "Hello"), _item(role, "It is late.")
    application().json(
        "/v1/responses", {"input": [_item(role, "Be brief."), hello, late, hello]}
    )
    assert application().history == START + HELLO + _turn("user", "It is late.") + HELLO
    application().json(
        "/v1/responses", {"instructions": "Be brief.", "input": [late, hello]}
    )
    assert application().history == BOTH + HELLO


@pytest.mark.parametrize("role", ["system", "developer"])
def test_between_a_call_and_its_result(role: str) -> None:
    """It stands at the end of the result, and the call keeps its reasoning."""
    late, (said, result) = {**LATE, "role": role}, _call(0)
    behind = application().rendered([SYSTEM, USER, said, result, late], tools=TOOLS)
    assert "thought 0" in behind
    assert "result 0\n\nIt is late." in behind
    messages = [SYSTEM, USER, said, late, result]
    assert application().rendered(messages, tools=TOOLS) == behind
    after = application().rendered([*messages, *_call(1)], tools=TOOLS)
    assert after.startswith(behind.removesuffix("<|im_end|>\n"))


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_session_keeps_its_prefix(role: str) -> None:
    """Each prompt begins with the one before it, whatever system messages came in
    between.
    """
    late = [{"role": role, "content": f"reminder {number}"} for number in range(6)]
    messages = [SYSTEM, USER]
    before = application().rendered(messages, tools=TOOLS)
    for number in range(6):
        messages += _call(number)
        messages += [late[number]] * (number % 3)
        prompt = application().rendered(messages, tools=TOOLS)
        assert prompt.startswith(before)
        assert f"<think>\nthought {number}\n</think>" in prompt
        assert prompt.count(f"reminder {number}") == number % 3
        before = prompt


def test_tool_result_as_parts() -> None:
    said, result = _call(1)
    parts = {**result, "content": [{"type": "text", "text": "result 1"}]}
    prompt = application().rendered([USER, said, parts, LATE], tools=TOOLS)
    assert prompt == application().rendered([USER, said, result, LATE], tools=TOOLS)
    assert prompt.endswith(
        "<tool_response>\nresult 1\n\nIt is late.\n</tool_response><|im_end|>\n"
    )


def test_what_the_template_takes_is_untouched() -> None:
    coder = QWEN3_CODER.read_text()
    prompt = application().rendered(
        [SYSTEM, LATE, USER, ANSWER, LATE], chat_template=coder
    )
    late = _turn("system", "It is late.")
    assert prompt == START + late + HELLO + _turn("assistant", "Hi") + late
    assert application().rendered([ANSWER], chat_template=coder) == _turn(
        "assistant", "Hi"
    )


def test_other_refusals_stay() -> None:
    status, answer = application().post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "<tool_response>x</tool_response>"}]},
    )
    assert (status, "No user query found in messages" in answer) == (400, True)
