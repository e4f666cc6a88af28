# SPDX-License-Identifier: Apache-2.0
"""``/v1/messages``."""

import json
from typing import Any

from jiter import from_json

from conformance.case import Case, Start
from conformance.reading import ReadCall, Reading, sse
from conformance.surfaces.request import request as common

NAME = "messages"
PATH = "/v1/messages"

_FINISH = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "stop_sequence": "stop",
}
_CHOICE = {"auto": "auto", "none": "none", "required": "any"}
#: Of which block a delta is, and the field that holds its text.
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", ""),
    "input_json_delta": ("tool_use", "partial_json"),
}


def request(case: Case, start: Start, *, stream: bool, model: str) -> dict[str, Any]:
    tools = [
        {"name": t.name, "description": t.description, "input_schema": t.parameters}
        for t in case.tools
    ]
    choice = {"type": _CHOICE[case.tool_choice]}
    more = {"model": model, "stream": stream, "max_tokens": 100_000}
    return common(case, start, NAME, tools, choice, **more)


def read_full(body: bytes) -> Reading:
    # A block's input is an object: a call that is cut has no honest form, and is left
    # out.
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
    return reading.close()


def read_stream(body: bytes) -> Reading:
    """Return a streamed response: blocks between ``message_start`` and
    ``message_stop``.

    Assembled as Anthropic's SDK does: a delta goes to the block that its index names,
    if that is of its kind.
    """
    reading, blocks = Reading(), _Blocks()
    state = "begin"
    for name, data in sse(body):
        event = json.loads(data)
        kind = event.get("type", "")
        if name and name != kind:
            reading.breaks("event-name", f"{name} carries {kind}")
        if state == "end":
            reading.breaks("terminal-event", f"{kind} after message_stop")
        if state == "begin" and kind not in ("message_start", "ping", "error"):
            reading.fails("event-order", f"{kind} before message_start")
        if kind == "message_start":
            if state != "begin":
                reading.breaks("event-order", f"{kind} in state {state}")
            state = "blocks"
        elif kind == "content_block_start":
            blocks.start(reading, event)
        elif kind == "content_block_delta":
            blocks.delta(reading, event)
        elif kind == "content_block_stop":
            blocks.stop(reading, event)
        elif kind == "message_delta":
            blocks.none_is_open(reading, kind)
            stop = event["delta"].get("stop_reason")
            reading.finish = _FINISH.get(stop, stop)
            reading.stopped_by = event["delta"].get("stop_sequence") or ""
        elif kind == "message_stop":
            state = "end"
        elif kind == "error":
            reading.fails("error-event", data[:300])
        elif kind != "ping":
            reading.breaks("event-name", f"unknown event {kind!r}")
    if state != "end":
        reading.breaks("terminal-event", "no message_stop")
    blocks.none_is_open(reading, "the stream ends")
    blocks.assemble(reading)
    return reading


class _Blocks:
    """The blocks of a stream: their types, texts, and which is open."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.open: int | None = None

    def none_is_open(self, reading: Reading, what: str) -> None:
        if self.open is not None:
            reading.breaks("block-nesting", f"{what} inside block {self.open}")

    def start(self, reading: Reading, event: dict[str, Any]) -> None:
        self.none_is_open(reading, "a block starts")
        index, count = event.get("index"), len(self.blocks)
        if index != count:
            reading.breaks("index", f"block {index} after {count} blocks")
        block = event["content_block"]
        field = "thinking" if block["type"] == "thinking" else "text"
        self.blocks.append({**block, "said": block.get(field) or ""})
        self.open = index

    def stop(self, reading: Reading, event: dict[str, Any]) -> None:
        index = event.get("index")
        if index != self.open:
            reading.breaks("block-nesting", f"{index} stops, {self.open} is open")
        if not self._has(index):
            reading.fails("block-nesting", f"{index} stops and was never started")
        self.open = None

    def delta(self, reading: Reading, event: dict[str, Any]) -> None:
        delta, index = event["delta"], event.get("index", -1)
        kind = delta["type"]
        if not self._has(index):
            reading.fails("block-nesting", f"{kind} for block {index}")
            return
        block = self.blocks[index]
        of, field = _DELTAS.get(kind, ("", ""))
        if index != self.open or of != block["type"]:
            opened = self.blocks[self.open or 0]["type"] if self._has(self.open) else ""
            reading.breaks(
                "content-inside-call" if opened == "tool_use" else "block-nesting",
                f"{kind} for block {index} ({block['type']}), open is {self.open}",
            )
        if kind == "thinking_delta" and any(
            each["type"] == "tool_use" or (each["type"] == "text" and each["said"])
            for each in self.blocks
        ):
            reading.breaks("order", "thinking after text or calls")
        if of == block["type"] and field:
            block["said"] += delta[field]
            reading.pieces += of == "tool_use" and bool(delta[field])

    def _has(self, index: int | None) -> bool:
        return isinstance(index, int) and 0 <= index < len(self.blocks)

    def assemble(self, reading: Reading) -> None:
        for block in self.blocks:
            if block["type"] == "thinking":
                reading.reasoning += block["said"]
            elif block["type"] == "text":
                reading.content += block["said"]
            elif block["type"] == "tool_use":
                # No argument text stands for no arguments.
                text = block["said"] or "{}"
                name, id_ = block.get("name") or "", block.get("id") or ""
                reading.calls.append(ReadCall(name, id_, text))
        reading.close()
        for call in reading.calls:
            if call.parsed is None:
                try:
                    text = (call.text or "").encode()
                    call.opened = from_json(text, partial_mode=True)
                except ValueError as error:
                    reading.fails("valid-json", str(error))
