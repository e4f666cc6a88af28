# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls: a call that max_tokens or a stop string cut is whole nowhere,
and comes back on the next turn (E10).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.reading import sse
from harness import TOOLS, call, tool
from old_harness import ask, raw

WIDTHS = (None, 1, 3, 100_000)
#: How the engine says that it ended, and what each surface makes of it: chat, messages.
ENDS = {
    "max_tokens": ("length", None),
    "stop string": ("stop", "\nObservation:"),
    "abort": ("abort", None),
}
FINISH = {
    "max_tokens": ("length", "max_tokens"),
    "stop string": ("stop", "stop_sequence"),
    "abort": ("abort", None),
}
WHOLE = call("read", ("path", "/a")) + "\n"
OPEN = "<tool_call>\n<function=write>\n<parameter=path>\n/b\n</parameter>\n<parameter=content>\nrm -rf data"
NUMBER = tool(
    "wait",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "seconds": {"type": "integer"}},
    },
)


def listed(width: int | None, body: bytes) -> list[Any]:
    """The events of a stream, or the one document."""
    if width is None:
        return [json.loads(body)]
    return [json.loads(data) for _, data in sse(body) if data != "[DONE]"]


def chat(
    output: str, width: int | None, end: str, **options: Any
) -> tuple[list[str], dict[str, Any]]:
    """The arguments of the calls as they were sent, and the choice that finishes."""
    finish, stop = ENDS[end]
    status, body = raw(output, width, end=finish, stop=stop, **options)
    assert status == 200, body
    arguments: list[str] = []
    last: dict[str, Any] = {}
    for chunk in listed(width, body):
        for choice in chunk.get("choices") or ():
            if choice.get("finish_reason"):
                last = choice
            parts = (choice.get("message") or choice.get("delta") or {}).get(
                "tool_calls"
            ) or ()
            for at, part in enumerate(parts):
                index = part.get("index", at)
                arguments += [""] * (index + 1 - len(arguments))
                arguments[index] += part["function"].get("arguments") or ""
    return arguments, last


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ENDS)
def test_chat(end: str, width: int | None) -> None:
    for before in ("", WHOLE):
        arguments, last = chat(before + OPEN, width, end)
        assert arguments[:-1] == ['{"path": "/a"}'] * bool(before)
        assert arguments[-1] == '{"path": "/b", "content": "rm -rf data'
        assert last["finish_reason"] == FINISH[end][0]
        assert last["stop_reason"] == ENDS[end][1]


@pytest.mark.parametrize("width", WIDTHS)
def test_an_open_value_that_is_no_string_is_left_out(width: int | None) -> None:
    output = "<tool_call>\n<function=wait>\n<parameter=name>\nx\n</parameter>\n<parameter=seconds>\n120"
    arguments, _ = chat(output, width, "max_tokens", tools=[NUMBER])
    assert arguments == ['{"name": "x"']
    # No arguments at all would be none, and valid, to some clients.
    begun = "<tool_call>\n<function=wait>\n"
    output = begun + "<parameter=seconds>\n1"
    assert chat(output, width, "max_tokens", tools=[NUMBER])[0] == ["{"]
    # Without a further tag of the frame, the opening is a mention.
    assert chat(begun, width, "max_tokens", tools=[NUMBER])[0] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cut_is_never_whole_wherever_it_is(width: int | None) -> None:
    output = call("write", ("path", "/b"), ("content", "a\nb"))
    for at in range(output.index("=write>") + 7, output.index("</function>"), 5):
        for end in ("max_tokens", "stop string"):
            arguments, last = chat(output[:at], width, end)
            for text in arguments:
                with pytest.raises(ValueError):
                    json.loads(text)
            assert last["finish_reason"] != "tool_calls"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ENDS)
def test_responses(end: str, width: int | None) -> None:
    finish, stop = ENDS[end]
    status, body = raw(WHOLE + OPEN, width, surface="responses", end=finish, stop=stop)
    assert status == 200, body
    events = listed(width, body)
    response = events[-1]["response"] if width is not None else events[0]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert [item["status"] for item in calls] == ["completed", "incomplete"]
    assert calls[1]["arguments"] == '{"path": "/b", "content": "rm -rf data'
    if end == "max_tokens":
        assert response["status"] == "incomplete"
    if width is not None:
        done = [
            event
            for event in events
            if event["type"] == "response.function_call_arguments.done"
        ]
        assert [event["arguments"] for event in done] == ['{"path": "/a"}']
        items = [
            event["item"]
            for event in events
            if event["type"] == "response.output_item.done"
        ]
        assert [
            item["status"] for item in items if item["type"] == "function_call"
        ] == [
            "completed",
            "incomplete",
        ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("end", ["max_tokens", "stop string"])
def test_messages(end: str, width: int | None) -> None:
    finish, stop = ENDS[end]
    status, body = raw(WHOLE + OPEN, width, surface="messages", end=finish, stop=stop)
    assert status == 200, body
    events = listed(width, body)
    if width is None:
        calls = [
            block["input"]
            for block in events[0]["content"]
            if block["type"] == "tool_use"
        ]
        assert calls == [{"path": "/a"}]
        told = events[0]
    else:
        blocks: dict[int, str] = {}
        for event in events:
            if (
                event["type"] == "content_block_start"
                and event["content_block"]["type"] == "tool_use"
            ):
                blocks[event["index"]] = ""
            elif event["type"] == "content_block_delta" and event["index"] in blocks:
                blocks[event["index"]] += event["delta"]["partial_json"]
        assert list(blocks.values()) == [
            '{"path": "/a"}',
            '{"path": "/b", "content": "rm -rf data',
        ]
        assert sum(event["type"] == "content_block_stop" for event in events) == len(
            blocks
        )
        (told,) = (
            event["delta"] for event in events if event["type"] == "message_delta"
        )
    assert told["stop_reason"] == FINISH[end][1]
    assert told.get("stop_sequence") == stop


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tag", ["</tool_call>", "</function>"])
def test_a_stop_string_that_closes_the_call_ends_it(
    tag: str, width: int | None
) -> None:
    output = call("read", ("path", "/a"))
    status, body = raw(output[: output.index(tag)], width, stop=tag)
    assert status == 200, body
    choices = [choice for event in listed(width, body) for choice in event["choices"]]
    assert choices[-1]["finish_reason"] == "tool_calls"
    reading = ask(output[: output.index(tag)], width, stop=tag)
    assert [(one.name, one.parsed) for one in reading.calls] == [
        ("read", {"path": "/a"})
    ]
    assert reading.content == ""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tag", ["</tool_call>", "</function>"])
def test_a_call_that_a_stop_string_closes_is_a_tool_use(
    tag: str, width: int | None
) -> None:
    output = call("read", ("path", "/a"))
    output = output[: output.index(tag)]
    reading = ask(output, width, surface="messages", stop=tag)
    assert [one.name for one in reading.calls] == ["read"]
    assert reading.finish == "tool_calls"


@pytest.mark.parametrize("surface", ["chat", "responses", "messages"])
def test_the_next_turn_takes_it_back(surface: str) -> None:
    """What each surface sent of a cut call, as clients send it back."""
    cut = '{"path": "/b", "content": "rm -rf data'
    function = {"name": "write", "arguments": cut}
    if surface == "responses":
        history: dict[str, Any] = {
            "input": [
                {"role": "user", "content": "hello"},
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "c",
                    "name": "write",
                    "arguments": cut,
                    "status": "incomplete",
                },
                {"type": "function_call_output", "call_id": "c", "output": "no JSON"},
            ]
        }
    elif (
        surface == "messages"
    ):  # clients that cannot parse the block send what they could read of it
        use = {"type": "tool_use", "id": "c", "name": "write", "input": {"path": "/b"}}
        result = {
            "type": "tool_result",
            "tool_use_id": "c",
            "content": "no JSON",
            "is_error": True,
        }
        history = {
            "messages": [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ]
        }
    else:
        history = {
            "messages": [
                {"role": "user", "content": "hello"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": function}
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": "no JSON"},
            ]
        }
    reading = ask("Fine.", surface=surface, tools=TOOLS, **history)
    assert (reading.broken, reading.content) == ([], "Fine.")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cut_call_that_is_left_out_leaves_the_first_one_whole(
    width: int | None,
) -> None:
    options: dict[str, Any] = {"parallel_tool_calls": False}
    arguments, last = chat(WHOLE + OPEN, width, "stop string", **options)
    assert arguments == ['{"path": "/a"}']
    assert last["finish_reason"] == "tool_calls"
    finish, stop = ENDS["stop string"]
    status, body = raw(
        WHOLE + OPEN, width, surface="responses", end=finish, stop=stop, **options
    )
    assert status == 200, body
    document = listed(width, body)[-1]
    items = document.get("response", document)["output"]
    calls = [item for item in items if item["type"] == "function_call"]
    assert [(call["arguments"], call["status"]) for call in calls] == [
        ('{"path": "/a"}', "completed")
    ]
