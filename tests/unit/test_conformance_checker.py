# SPDX-License-Identifier: Apache-2.0
"""The checker passes a right stream on each surface and reports every planted fault."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from conformance import check, sdk
from conformance.case import Call, Expected, Tool
from conformance.reading import ReadCall
from conformance.surfaces import chat, messages, responses
from conftest import chat_answer

WANT = Expected(
    reasoning="Hm.",
    content="One.\nTwo.",
    finish_reason="tool_calls",
    calls=(Call(name="f", arguments={"a": "x"}), Call(name="g", arguments={})),
)
Events = list[dict[str, Any]]


def chat_events() -> Events:
    def tool(index: int, **function: str) -> dict[str, Any]:
        first = {"id": f"c{index}", "type": "function"} if "name" in function else {}
        return {"tool_calls": [{"index": index, **first, "function": function}]}

    deltas = [
        {"role": "assistant", "content": ""},
        {"reasoning": "Hm"},
        {"reasoning": "."},
        {"content": "One."},
        tool(0, name="f", arguments=""),
        tool(0, arguments='{"a": '),
        tool(0, arguments='"x"}'),
        tool(1, name="g", arguments="{}"),
        {"content": "\nTwo."},
    ]
    return [
        *(
            {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": d, "finish_reason": None}],
            }
            for d in deltas
        ),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"done": True},
    ]


def chat_bytes(events: Events) -> bytes:
    return "".join(
        "data: [DONE]\n\n" if "done" in e else f"data: {json.dumps(e)}\n\n"
        for e in events
    ).encode()


def message_events() -> Events:
    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Events:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *(
                {"type": "content_block_delta", "index": index, "delta": d}
                for d in deltas
            ),
            {"type": "content_block_stop", "index": index},
        ]

    return [
        {"type": "message_start", "message": {"content": [], "usage": {}}},
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "One."}),
        *block(
            2,
            {"type": "tool_use", "id": "t0", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a"'},
            {"type": "input_json_delta", "partial_json": ': "x"}'},
        ),
        *block(3, {"type": "tool_use", "id": "t1", "name": "g", "input": {}}),
        *block(
            4, {"type": "text", "text": ""}, {"type": "text_delta", "text": "\nTwo."}
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]


def event_bytes(events: Events) -> bytes:
    return "".join(
        f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events
    ).encode()


def response_events() -> Events:
    out: Events = [
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.in_progress", "response": {}},
    ]
    items: list[dict[str, Any]] = [
        {
            "type": "reasoning",
            "id": "r",
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
        {
            "type": "message",
            "id": "m",
            "content": [{"type": "output_text", "text": "One."}],
        },
        {
            "type": "function_call",
            "id": "f0",
            "call_id": "c0",
            "name": "f",
            "arguments": '{"a": "x"}',
        },
        {
            "type": "function_call",
            "id": "f1",
            "call_id": "c1",
            "name": "g",
            "arguments": "{}",
        },
        {
            "type": "message",
            "id": "m2",
            "content": [{"type": "output_text", "text": "\nTwo."}],
        },
    ]
    kinds = {
        "reasoning": "reasoning_text",
        "message": "output_text",
        "function_call": "function_call_arguments",
    }
    for i, item in enumerate(items):
        text = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        base: dict[str, Any] = {"output_index": i, "item_id": item["id"]}
        empty: dict[str, Any] = (
            {"arguments": ""} if "arguments" in item else {"content": []}
        )
        added = {"type": "response.output_item.added", "item": {**item, **empty}}
        out.append(added | {"output_index": i})
        if item["type"] == "message":
            part = {"part": {"type": "output_text", "text": ""}, "content_index": 0}
            out.append({"type": "response.content_part.added", **base, **part})
            base["content_index"] = 0
        out += [
            {"type": f"response.{kinds[item['type']]}.delta", "delta": part, **base}
            for part in (text[:2], text[2:])
            if part
        ]
        out.append(
            {
                "type": f"response.{kinds[item['type']]}.done",
                "arguments" if "arguments" in item else "text": text,
                **base,
            }
        )
        out.append(
            {"type": "response.output_item.done", "output_index": i, "item": item}
        )
    out.append(
        {
            "type": "response.completed",
            "response": {"status": "completed", "output": items},
        }
    )
    return [event | {"sequence_number": n} for n, event in enumerate(out)]


STREAMS: dict[str, tuple[Any, Any, Any]] = {
    "chat": (chat_events, chat_bytes, chat.read_stream),
    "messages": (message_events, event_bytes, messages.read_stream),
    "responses": (response_events, event_bytes, responses.read_stream),
}


@pytest.mark.parametrize("surface", STREAMS)
def test_right_streams_are_right_and_the_sdk_agrees(surface: str) -> None:
    make, write, read = STREAMS[surface]
    body = write(make())
    reading = read(body)
    assert check.problems(reading, WANT) == []
    assert sdk.difference(surface, body, reading) == ""
    reading.content += "x"
    assert sdk.difference(surface, body, reading).startswith("content: the SDK read")


def _delta(at: int, **change: Any) -> Callable[[Events], None]:
    return lambda e: e[at]["choices"][0]["delta"].update(change)


CHAT_FAULTS: dict[str, Callable[[Events], Any]] = {
    "one-kind": _delta(2, content="x"),
    "name-first": lambda e: e[5]["choices"][0]["delta"]["tool_calls"][0][
        "function"
    ].update(name="f"),
    "name-first: call 0 begins": lambda e: e[4]["choices"][0]["delta"]["tool_calls"][0][
        "function"
    ].pop("name"),
    "call-id": lambda e: e[7]["choices"][0]["delta"]["tool_calls"][0].update(id="c0"),
    "index": lambda e: e[7]["choices"][0]["delta"]["tool_calls"][0].update(index=2),
    "index: None": lambda e: e[5]["choices"][0]["delta"]["tool_calls"][0].pop("index"),
    "content-inside-call": lambda e: e.insert(5, copy.deepcopy(e[3])),
    "valid-json": lambda e: e.pop(6),
    "order": lambda e: e.insert(9, e.pop(1)),
    "finish-reason: none": lambda e: e[9]["choices"][0].update(finish_reason=None),
    "finish-reason: stop": lambda e: e[9]["choices"][0].update(finish_reason="stop"),
    "terminal-event: no": lambda e: e.pop(),
    "terminal-event: a delta": lambda e: e.insert(8, e.pop(9)),
    "error-event": lambda e: e.insert(3, {"error": {"message": "boom"}}),
}


def late_thinking(events: Events) -> None:
    events.append(events.pop(-2))
    delta = {"type": "thinking_delta", "thinking": "x"}
    events.insert(-2, {"type": "content_block_delta", "index": 4, "delta": delta})


MESSAGE_FAULTS: dict[str, Callable[[Events], Any]] = {
    "block-nesting: a block starts": lambda e: e.pop(3),
    "content-inside-call": lambda e: e.insert(
        8,
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "text_delta", "text": "x"},
        },
    ),
    "index": lambda e: e[4].update(index=7),
    "event-order": lambda e: e.insert(0, e.pop(1)),
    "terminal-event": lambda e: e.pop(),
    "finish-reason": lambda e: e.pop(-2),
    "valid-json": lambda e: e.pop(9),
    "error-event": lambda e: e.insert(3, {"type": "error", "error": {}}),
    "order": late_thinking,
}


def _of(events: Events, kind: str, nth: int = 0) -> int:
    return [i for i, e in enumerate(events) if e["type"] == kind][nth]


RESPONSE_FAULTS: dict[str, Callable[[Events], Any]] = {
    "sequence-number": lambda e: e[3].update(sequence_number=9),
    "item-order": lambda e: e.pop(_of(e, "response.output_item.done")),
    "index": lambda e: e[_of(e, "response.output_item.added", 1)].update(
        output_index=5
    ),
    "name-first": lambda e: e[_of(e, "response.output_item.added", 2)]["item"].pop(
        "name"
    ),
    "done-text": lambda e: e[_of(e, "response.function_call_arguments.done")].update(
        arguments="{}"
    ),
    "content-inside-call": lambda e: e.insert(
        _of(e, "response.function_call_arguments.delta") + 1,
        {"type": "response.output_text.delta", "output_index": 2, "delta": "x"},
    ),
    "final-output": lambda e: e[-1]["response"]["output"].pop(),
    "final-ids": lambda e: e[-1]["response"].update(
        output=[{**item, "call_id": "zz"} for item in e[-1]["response"]["output"][:3]]
        + e[-1]["response"]["output"][3:]
    ),
    "terminal-event": lambda e: e.pop(),
    "terminal-event: response.created": lambda e: e.append(e.pop(0)),
    "error-event": lambda e: e.insert(4, {"type": "error", "message": "x"}),
    "item-id": lambda e: e[_of(e, "response.output_text.delta")].update(item_id="zz"),
}


FAULTS = {
    "chat": CHAT_FAULTS,
    "messages": MESSAGE_FAULTS,
    "responses": RESPONSE_FAULTS,
}


@pytest.mark.parametrize(
    ("surface", "fault"),
    [(surface, fault) for surface in FAULTS for fault in FAULTS[surface]],
)
def test_a_planted_fault_is_reported_and_read_as_the_sdk_reads_it(
    surface: str, fault: str
) -> None:
    make, write, read = STREAMS[surface]
    events = copy.deepcopy(make())
    FAULTS[surface][fault](events)
    body = write(events)
    reading = read(body)
    assert any(b.startswith(fault) for b in reading.broken), reading.broken
    assert sdk.difference(surface, body, reading) == ""


def test_what_no_sdk_minds_is_form_alone() -> None:
    events = chat_events()
    deltas = [event["choices"][0]["delta"] for event in events[:5]]
    del deltas[4]["tool_calls"][0]["function"]["arguments"]
    deltas[2]["content"], deltas[3]["content"] = "O", "ne."
    found = check.problems(chat.read_stream(chat_bytes(events)), WANT)
    assert check.worst(found) == "form"
    assert {why.split(":")[0] for _, why in found} == {"first-arguments", "one-kind"}


QUOTED = Call(name="f", arguments={"a": "x"})
TOOL = Tool(name="f", parameters={"required": ["a"]})
TOOL_G = Tool(name="g", parameters={})
NUMBER = {"type": "object", "properties": {"a": {"type": "integer"}}}
CUT = Expected(
    calls=(Call(name="f", argument_text='{"a": "x'),), finish_reason="length"
)


@pytest.mark.parametrize(
    ("harm", "want", "says"),
    [
        ("text", {"reasoning": "Hm"}, "reasoning: matched 'Hm', then came '.'"),
        ("form", {"content": "One.\nTwo.\n"}, "content: matched 'One.\\nTwo.', then"),
        ("text", {"content": "One.Two."}, "content: matched 'One.', then"),
        ("text", {"finish_reason": "length"}, "finish reason: got tool_calls"),
        ("ran", {"calls": (QUOTED,)}, "calls: got ['f', 'g'], expected ['f']"),
        ("lost", {"calls": (*WANT.calls, QUOTED)}, "calls: got ['f', 'g'], expected"),
        ("text", {"calls": WANT.calls[::-1]}, "calls: got ['f', 'g'], expected"),
        (
            "refused",
            {"calls": (QUOTED,), "tools": (TOOL,)},
            "calls: got ['f', 'g'], expected ['f']",
        ),
        (
            "refused",
            {
                "calls": (Call(name="f", arguments={"a": 1}), WANT.calls[1]),
                "tools": (Tool(name="f", parameters=NUMBER), TOOL_G),
            },
            "arguments of call 0: matched '{\"a\": '",
        ),
        (
            "ran",
            {
                "calls": (Call(name="f", arguments={}), WANT.calls[1]),
                "quoted": (QUOTED,),
            },
            "arguments of call 0: matched '{'",
        ),
        (
            "bytes",
            {"calls": (Call(name="f", arguments={"a": 1}), WANT.calls[1])},
            "arguments of call 0: matched '{\"a\": '",
        ),
        ("ran", {"calls": (*CUT.calls, WANT.calls[1])}, "call 0 was cut and looks"),
    ],
)
def test_a_difference_says_what_harm_and_where(
    harm: str, want: dict[str, Any], says: str
) -> None:
    reading = chat.read_stream(chat_bytes(chat_events()))
    found = check.problems(reading, WANT.model_copy(update=want))
    assert check.worst(found) == harm
    assert any(why.startswith(says) for _, why in found), found


@pytest.mark.parametrize(
    ("schema", "value", "admits"),
    [
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, True, False),
        ({"type": "boolean"}, True, True),
        ({"type": "int"}, "1", True),
        ({"type": ["array", "null"]}, None, True),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[]", False),
        ({"enum": ["a", "b"]}, "c", False),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], False),
    ],
)
def test_a_client_refuses_what_its_schema_does_not_admit(
    schema: dict[str, Any], value: Any, admits: bool
) -> None:
    tool = Tool(name="f", parameters={"properties": {"a": schema}, "required": ["a"]})
    read = ReadCall("f", "1", parsed={"a": value})
    assert check.does(read, [tool]) == ("runs" if admits else "refused")
    assert check.does(ReadCall("f", "1", parsed={}), [tool]) == "refused"
    assert check.does(ReadCall("f", "1"), [tool]) == ""


@pytest.mark.parametrize("surface", STREAMS)
def test_arguments_that_never_close_are_what_a_client_makes_of_them(
    surface: str,
) -> None:
    """OpenAI's hands them on, and no client can read them; Anthropic's closes them."""
    make, write, read = STREAMS[surface]
    text = write(make()).decode().replace('\\"x\\"}', '\\"xy').replace('"}"', '""')
    reading = read(text.encode())
    found = check.problems(reading, WANT)
    assert check.worst(found) == ("bytes" if surface == "messages" else "lost"), found
    assert sdk.difference(surface, text.encode(), reading) == ""


def test_numbers_booleans_and_text_are_not_confused() -> None:
    assert len({check.canonical(v) for v in (1, 1.5, True, "1", None)}) == 5
    assert check.canonical({"a": [1.0]}) == check.canonical({"a": [1]})


def test_streamed_and_whole_must_agree() -> None:
    calls = (("f", '{"a": "x"}'), ("g", "{}"))
    answer = chat_answer(*calls, reasoning="Hm.", content="One.\nTwo.")
    whole = chat.read_full(json.dumps(answer).encode())
    streamed = chat.read_stream(chat_bytes(chat_events()))
    assert whole.broken == []
    assert check.same(streamed, whole) == []
    whole.calls[0].text = '{"a":"x"}'
    assert check.same(streamed, whole)


CUT_READ = Expected(
    calls=(Call(name="read", argument_text='{"path": "/a'),), finish_reason="length"
)
USE = {"type": "tool_use", "id": "1", "name": "read", "input": {"path": "/a"}}


@pytest.mark.parametrize(
    ("surface", "document", "harm"),
    [
        # Compared by its text, which may be no JSON.
        (chat, chat_answer(("read", '{"path": "/a'), finish="length"), ""),
        (chat, chat_answer(("read", '{"path": "/a"}'), finish="length"), "ran"),
        (chat, chat_answer(("read", '{"path": "'), finish="length"), "text"),
        # A surface without a place for it leaves it out.
        (messages, {"content": [], "stop_reason": "max_tokens"}, ""),
        (messages, {"content": [USE], "stop_reason": "max_tokens"}, "ran"),
    ],
)
def test_a_call_that_is_cut(surface: Any, document: dict[str, Any], harm: str) -> None:
    reading = surface.read_full(json.dumps(document).encode())
    assert check.worst(check.problems(reading, CUT_READ)) == harm
