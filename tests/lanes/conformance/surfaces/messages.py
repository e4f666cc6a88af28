"""``/v1/messages``."""

from __future__ import annotations

import json
from typing import Any

from conformance.case import Case, Start
from conformance.reading import ReadCall, Reading, sse
from conformance.surfaces import prompt, thinking_switch, with_fields

NAME = "messages"
PATH = "/v1/messages"

_FINISH = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop",
}
_CHOICE = {"auto": "auto", "none": "none", "required": "any"}
_DELTA_OF = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


def request(case: Case, start: Start, *, stream: bool, model: str) -> dict[str, Any]:
    """The request body."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": 100_000,
        "messages": [{"role": "user", "content": prompt(case, start)}],
        "stream": stream,
        **thinking_switch(start),
    }
    if case.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            for t in case.tools
        ]
        body["tool_choice"] = {"type": _CHOICE[case.tool_choice]}
    return with_fields(body, case, NAME)


def read_full(body: bytes) -> Reading:
    """A response that was not streamed."""
    # A block's input is an object: a call that is cut has no honest form, and is left out.
    reading, document = Reading(omits_cut=True), json.loads(body)
    for block in document["content"]:
        if block["type"] == "thinking":
            reading.reasoning += block["thinking"]
        elif block["type"] == "text":
            reading.content += block["text"]
        elif block["type"] == "tool_use":
            reading.calls.append(
                ReadCall(block["name"], block.get("id") or "", None, block["input"])
            )
        else:
            reading.breaks("block-type", block["type"])
    reading.finish = _FINISH.get(
        document.get("stop_reason"), document.get("stop_reason")
    )
    reading.stopped_by = document.get("stop_sequence") or ""
    reading.close()
    return reading


def read_stream(body: bytes) -> Reading:
    """A streamed response: message_start, blocks that do not overlap, message_delta, message_stop."""
    reading, opened, count, state = Reading(), None, 0, "begin"
    for name, data in sse(body):
        event = json.loads(data)
        kind = event.get("type", "")
        if name and name != kind:
            reading.breaks("event-name", f"{name} carries {kind}")
        if state == "end":
            reading.breaks("terminal-event", f"{kind} after message_stop")
        if (kind == "message_start") != (state == "begin"):
            reading.breaks("event-order", f"{kind} in state {state}")
        if kind == "message_start":
            state = "blocks"
        elif kind == "content_block_start":
            if opened is not None:
                reading.breaks("block-nesting", "a block starts inside a block")
            if event.get("index") != count:
                reading.breaks(
                    "index", f"block {event.get('index')} after {count} blocks"
                )
            block = event["content_block"]
            opened, count = (event.get("index"), block["type"]), count + 1
            if block["type"] == "tool_use":
                reading.calls.append(
                    ReadCall(block.get("name") or "", block.get("id") or "", "")
                )
        elif kind == "content_block_delta":
            _delta(reading, event, opened)
        elif kind == "content_block_stop":
            if opened is None or event.get("index") != opened[0]:
                reading.breaks(
                    "block-nesting",
                    f"block {event.get('index')} stops, {opened} is open",
                )
            opened = None
        elif kind == "message_delta":
            if opened is not None:
                reading.breaks("block-nesting", "message_delta inside a block")
            stop = event["delta"].get("stop_reason")
            reading.finish = _FINISH.get(stop, stop)
            reading.stopped_by = event["delta"].get("stop_sequence") or ""
        elif kind == "message_stop":
            state = "end"
        elif kind == "error":
            reading.breaks("error-event", data[:300])
        elif kind != "ping":
            reading.breaks("event-name", f"unknown event {kind!r}")
    if state != "end":
        reading.breaks("terminal-event", "no message_stop")
    if opened is not None:
        reading.breaks("block-nesting", "a block is never stopped")
    for call in reading.calls:
        # This API's clients take a call without any argument text for one without arguments.
        call.text = call.text or "{}"
    reading.close()
    return reading


def _delta(
    reading: Reading, event: dict[str, Any], opened: tuple[Any, str] | None
) -> None:
    """One content_block_delta."""
    delta = event["delta"]
    kind = delta["type"]
    if (
        opened is None
        or event.get("index") != opened[0]
        or _DELTA_OF.get(kind) != opened[1]
    ):
        reading.breaks(
            "content-inside-call"
            if opened and opened[1] == "tool_use"
            else "block-nesting",
            f"{kind} for block {event.get('index')}, open is {opened}",
        )
    if kind == "text_delta":
        reading.content += delta["text"]
    elif kind == "thinking_delta":
        if reading.content.strip() or reading.calls:
            reading.breaks("order", "thinking after text or calls")
        reading.reasoning += delta["thinking"]
    elif kind == "input_json_delta" and reading.calls:
        reading.pieces += bool(delta["partial_json"])
        reading.calls[-1].text = (reading.calls[-1].text or "") + delta["partial_json"]
