# SPDX-License-Identifier: Apache-2.0
"""``/v1/responses``."""

import json
from collections import Counter
from typing import Any

from conformance.case import Case, Start
from conformance.reading import ReadCall, Reading, sse
from conformance.surfaces.request import request as common

NAME = "responses"
PATH = "/v1/responses"

#: The items that are calls, each with the field that holds what the call is given.
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}

_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
_DELTAS = {
    "response.output_text.delta": "message",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
#: Events with the text of an item, the item's type, and the event's field.
_DONE = {
    "response.output_text.done": ("message", "text"),
    "response.reasoning_text.done": ("reasoning", "text"),
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
}


def request(case: Case, start: Start, *, stream: bool, model: str) -> dict[str, Any]:
    tools = [
        {"type": "function", "strict": False, **t.model_dump()} for t in case.tools
    ]
    more = {"model": model, "stream": stream, "store": False}
    return common(case, start, NAME, tools, case.tool_choice, **more)


def _text(item: dict[str, Any]) -> str:
    """Return the text of a message or reasoning item."""
    return "".join(part.get("text") or "" for part in item.get("content") or [])


def as_json(text: str) -> str:
    """Return a custom tool's input as the arguments that the model gave: those of a
    function with the one parameter ``input``.
    """
    return json.dumps({"input": text}, ensure_ascii=False)


def _item(reading: Reading, item: dict[str, Any]) -> None:
    """Add a finished output item to the reading."""
    if item["type"] == "message":
        reading.content += _text(item)
    elif item["type"] == "reasoning":
        reading.reasoning += _text(item)
    elif item["type"] == "function_call":
        name = (
            f"{item['namespace']}__{item['name']}"
            if item.get("namespace")
            else item["name"]
        )
        reading.calls.append(
            ReadCall(
                name,
                item.get("call_id") or "",
                item["arguments"],
                status=item.get("status"),
            )
        )
    elif item["type"] == "custom_tool_call":
        reading.calls.append(
            ReadCall(item["name"], item.get("call_id") or "", as_json(item["input"]))
        )
    else:
        reading.breaks("item-type", item["type"])


def _finish(reading: Reading, response: dict[str, Any]) -> None:
    """Set the finish reason in the words of chat completions."""
    status, details = response.get("status"), response.get("incomplete_details") or {}
    if status == "completed":
        whole = bool(reading.calls) and reading.calls[-1].status != "incomplete"
        reading.finish = "tool_calls" if whole else "stop"
    elif status == "incomplete":
        reading.finish = (
            "length"
            if details.get("reason") == "max_output_tokens"
            else f"incomplete: {details}"
        )
    else:
        reading.finish = status


def read_full(body: bytes) -> Reading:
    reading, document = Reading(), json.loads(body)
    for item in document["output"]:
        _item(reading, item)
    # A custom tool's call has no status, hence no honest form when it is cut: it is
    # left out.
    reading.omits_cut = any(
        t.get("type") == "custom" for t in document.get("tools") or []
    )
    _finish(reading, document)
    return reading.close()


class _Items:
    """The output items of a stream: each is added, filled and done before the next."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.open: dict[str, Any] | None = None
        self.index: int | None = -1
        self.count, self.text = 0, ""
        self.told_done = False
        self.added_as: dict[Any, dict[str, Any]] = {}
        self.parts = Counter[Any]()

    @property
    def kind(self) -> str:
        """The type of the open item."""
        return self.open["type"] if self.open else ""

    def added(self, event: dict[str, Any]) -> None:
        item, index = event["item"], event.get("output_index")
        if self.open is not None:
            self.reading.breaks(
                "item-order", f"{item['type']} is added while {self.kind} is open"
            )
        if index in self.added_as:
            self.reading.fails("index", f"item {index} is added again")
        elif index != self.count:
            self.reading.breaks("index", f"item {index} after {self.count} items")
        if item["type"] in _CALLS and not (item.get("name") and item.get("call_id")):
            self.reading.breaks(
                "name-first", "a function call is added without name or call id"
            )
        self.added_as[index] = item
        self.open, self.index, self.count, self.text = item, index, self.count + 1, ""

    def delta(self, event: dict[str, Any], kind: str) -> None:
        """Take text for an item; OpenAI's SDK raises if the item is of another kind."""
        index = event.get("output_index")
        if self.kind != kind or index != self.index:
            inside = self.kind in _CALLS and kind != self.kind
            self.reading.breaks(
                "content-inside-call" if inside else "item-order",
                f"a delta for {kind}, open is {self.kind or 'nothing'}",
            )
        at = self.added_as.get(index, {}).get("type")
        if kind in ("message", "function_call") and at != kind:
            self.reading.fails("item-order", f"item {index} is {at}, not {kind}")
        elif kind == "message" and not self.parts[index]:
            self.reading.fails("item-order", f"item {index} has no part for the text")
        if self.open is not None and event.get("item_id") not in (
            None,
            self.open.get("id"),
        ):
            self.reading.breaks(
                "item-id", f"{event.get('item_id')} is not the open item"
            )
        self.text += event["delta"]

    def whole(self, kind: str, text: str) -> None:
        """Check that a done event repeats the text that the deltas gave."""
        if self.kind != kind or text != self.text:
            self.reading.breaks(
                "done-text",
                f"{kind}: deltas gave {self.text[-60:]!r}, "
                f"done says {(text or '')[-60:]!r}",
            )

    def done(self, event: dict[str, Any]) -> None:
        item, index = event["item"], event.get("output_index")
        if item["type"] != self.kind or index != self.index:
            self.reading.breaks(
                "item-order",
                f"{item['type']} is done, open is {self.kind or 'nothing'}",
            )
        if _identity(item) != _identity(self.added_as.get(index, item)):
            self.reading.fails("item-id", f"item {index} is done as another")
        if item["type"] == "reasoning" and (
            self.reading.content.strip() or self.reading.calls
        ):
            self.reading.breaks("order", "reasoning after content or calls")
        if item.get("status") == "incomplete" and self.told_done:
            self.reading.breaks(
                "cut-done", "the arguments of an incomplete call are done"
            )
        name, added = item.get("name"), (self.open or item).get("name")
        if item["type"] in _CALLS and name != added:
            self.reading.breaks("name-first", f"{added!r} is done as {name!r}")
        field = _CALLS.get(item["type"])
        self.whole(item["type"], item[field] if field else _text(item))
        _item(self.reading, item)
        self.open, self.told_done = None, False

    def leave(self) -> None:
        """End the stream: what is open is read as it stands."""
        if self.open is None:
            return
        # A custom tool's call, when it is cut, has no other way to say so.
        if self.kind != "custom_tool_call":
            self.reading.breaks("item-order", f"{self.kind} is never done")
        if self.kind in _CALLS:
            text = self.text
            if self.kind == "custom_tool_call":
                text = as_json(text).removesuffix('"}')
            name, id_ = self.open.get("name") or "", self.open.get("call_id") or ""
            self.reading.calls.append(ReadCall(name, id_, text))
        elif self.kind == "message":
            self.reading.content += self.text
        else:
            self.reading.reasoning += self.text


def _identity(item: dict[str, Any]) -> tuple[Any, ...]:
    """Return what OpenAI's SDK knows an item by, from its start to its end."""
    if item["type"] in _CALLS:
        return item["type"], item.get("call_id")
    return item["type"], item.get("id")


def read_stream(body: bytes) -> Reading:
    """Return a streamed response: items in order, one terminal event, numbered upwards.

    OpenAI's SDK gives its user the output of the terminal event; others, as Codex does,
    read the items. Where the two differ, the first counts.
    """
    reading = Reading()
    items, final = _Items(reading), None
    for number, (name, data) in enumerate(
        each for each in sse(body) if each[1] != "[DONE]"
    ):
        event = json.loads(data)
        kind = event.get("type", "")
        if name and name != kind:
            reading.breaks("event-name", f"{name} carries {kind}")
        if final is not None:
            reading.breaks("terminal-event", f"{kind} after the terminal event")
        if number == 0 and kind not in ("response.created", "error"):
            reading.fails("event-order", f"{kind} before response.created")
        if event.get("sequence_number") not in (None, number):
            reading.breaks(
                "sequence-number", f"{event['sequence_number']} instead of {number}"
            )
        if kind == "response.output_item.added":
            items.added(event)
        elif kind == "response.content_part.added":
            items.parts[event.get("output_index")] += 1
        elif kind == "response.output_item.done":
            items.done(event)
        elif kind in _DELTAS:
            items.delta(event, _DELTAS[kind])
            reading.pieces += _DELTAS[kind] in _CALLS and bool(event["delta"])
        elif kind in _DONE:
            of, field = _DONE[kind]
            items.whole(of, event[field])
            items.told_done |= kind == "response.function_call_arguments.done"
        elif kind in _TERMINAL:
            final = event["response"]
        elif event.get("error"):  # which OpenAI's SDK raises
            reading.fails("error-event", data[:300])
        elif kind == "error":
            reading.breaks("error-event", data[:300])
    cut_custom = items.kind == "custom_tool_call"
    items.leave()
    if final is None:
        reading.fails("terminal-event", "no response.completed")
    else:
        _same_output(reading, final, cut_custom=cut_custom)
        _finish(reading, final)
    return reading.close()


def _same_output(reading: Reading, final: dict[str, Any], *, cut_custom: bool) -> None:
    """Check that the terminal event carries the whole output again as streamed."""
    again = Reading()
    for item in final.get("output") or []:
        _item(again, item)
    calls = reading.calls[:-1] if cut_custom else reading.calls
    if (again.content, again.reasoning) != (reading.content, reading.reasoning) or (
        [(c.name, c.text, c.status == "incomplete") for c in again.calls]
        != [(c.name, c.text, c.status == "incomplete") for c in calls]
    ):
        reading.breaks(
            "final-output", "the terminal event's output differs from the streamed one"
        )
    elif [c.id for c in again.calls] != [c.id for c in calls]:
        reading.breaks(
            "final-ids", "the terminal event names other call ids than the items"
        )
    else:
        return
    reading.content, reading.reasoning = again.content, again.reasoning
    reading.calls = again.calls
