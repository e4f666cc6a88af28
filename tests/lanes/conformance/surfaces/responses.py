"""``/v1/responses``."""

from __future__ import annotations

import json
from typing import Any

from conformance.case import Case, Start
from conformance.reading import ReadCall, Reading, sse
from conformance.surfaces import prompt, thinking_switch, with_fields

NAME = "responses"
PATH = "/v1/responses"

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that are calls, each with the field that holds what the call is given."""

_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


def request(case: Case, start: Start, *, stream: bool, model: str) -> dict[str, Any]:
    """The request body."""
    body: dict[str, Any] = {
        "model": model,
        "input": [{"role": "user", "content": prompt(case, start)}],
        "store": False,
        "stream": stream,
        **thinking_switch(start),
    }
    if case.tools:
        body["tools"] = [
            {"type": "function", "strict": False, **t.model_dump()} for t in case.tools
        ]
        body["tool_choice"] = case.tool_choice
    return with_fields(body, case, NAME)


def _text(item: dict[str, Any]) -> str:
    """The text of a message or reasoning item."""
    return "".join(part.get("text") or "" for part in item.get("content") or [])


def _as_json(text: str) -> str:
    """A custom tool's input as the arguments that the model gave: those of a function with the one parameter ``input``."""
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
            ReadCall(item["name"], item.get("call_id") or "", _as_json(item["input"]))
        )
    else:
        reading.breaks("item-type", item["type"])


def _finish(reading: Reading, response: dict[str, Any]) -> None:
    """The finish reason in the words of chat completions."""
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
    """A response that was not streamed."""
    reading, document = Reading(), json.loads(body)
    for item in document["output"]:
        _item(reading, item)
    # A custom tool's call has no status, hence no honest form when it is cut: it is left out.
    reading.omits_cut = any(
        t.get("type") == "custom" for t in document.get("tools") or []
    )
    _finish(reading, document)
    reading.close()
    return reading


class _Items:
    """The output items of a stream: each is added, filled and done before the next."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.open: dict[str, Any] | None = None
        self.kind, self.index, self.count, self.text = "", -1, 0, ""
        self.told_done = False

    def added(self, event: dict[str, Any]) -> None:
        item, index = event["item"], event.get("output_index")
        if self.open is not None:
            self.reading.breaks(
                "item-order", f"{item['type']} is added while {self.kind} is open"
            )
        if index != self.count:
            self.reading.breaks("index", f"item {index} after {self.count} items")
        if item["type"] in _CALLS and not (item.get("name") and item.get("call_id")):
            self.reading.breaks(
                "name-first", "a function call is added without name or call id"
            )
        self.open, self.kind, self.index, self.count, self.text = (
            item,
            item["type"],
            index,
            self.count + 1,
            "",
        )

    def delta(self, event: dict[str, Any], kind: str) -> None:
        if (
            self.open is None
            or self.kind != kind
            or event.get("output_index") != self.index
        ):
            broken = (
                "content-inside-call"
                if self.kind in _CALLS and kind != self.kind
                else "item-order"
            )
            self.reading.breaks(
                broken, f"a delta for {kind}, open is {self.kind or 'nothing'}"
            )
        if self.open is not None and event.get("item_id") not in (
            None,
            self.open.get("id"),
        ):
            self.reading.breaks(
                "item-id", f"{event.get('item_id')} is not the open item"
            )
        self.text += event["delta"]

    def whole(self, kind: str, text: str) -> None:
        """A done event repeats the text: it must be what the deltas gave."""
        if self.kind != kind or text != self.text:
            self.reading.breaks(
                "done-text",
                f"{kind}: deltas gave {self.text[-60:]!r}, done says {(text or '')[-60:]!r}",
            )

    def done(self, event: dict[str, Any]) -> None:
        item = event["item"]
        if (
            self.open is None
            or item["type"] != self.kind
            or event.get("output_index") != self.index
        ):
            self.reading.breaks(
                "item-order",
                f"{item['type']} is done, open is {self.kind or 'nothing'}",
            )
        if item["type"] == "reasoning" and (
            self.reading.content.strip() or self.reading.calls
        ):
            self.reading.breaks("order", "reasoning after content or calls")
        if item.get("status") == "incomplete" and self.told_done:
            self.reading.breaks(
                "cut-done", "the arguments of an incomplete call are done"
            )
        if item["type"] in _CALLS:
            if self.open and item.get("name") != self.open.get("name"):
                self.reading.breaks(
                    "name-first",
                    f"added as {self.open.get('name')!r}, done as {item.get('name')!r}",
                )
            self.whole(item["type"], item[_CALLS[item["type"]]])
        else:
            self.whole(item["type"], _text(item))
        _item(self.reading, item)
        self.open, self.kind, self.told_done = None, "", False


def read_stream(body: bytes) -> Reading:
    """A streamed response: created, output items in order, one terminal event; numbered from 0 upwards."""
    reading = Reading()
    items, number, final = _Items(reading), 0, None
    for name, data in sse(body):
        if data == "[DONE]":
            continue
        event = json.loads(data)
        kind = event.get("type", "")
        if name and name != kind:
            reading.breaks("event-name", f"{name} carries {kind}")
        if final is not None:
            reading.breaks("terminal-event", f"{kind} after the terminal event")
        if event.get("sequence_number") not in (None, number):
            reading.breaks(
                "sequence-number", f"{event['sequence_number']} instead of {number}"
            )
        number += 1
        if kind == "response.output_item.added":
            items.added(event)
        elif kind == "response.output_item.done":
            items.done(event)
        elif kind == "response.output_text.delta":
            items.delta(event, "message")
        elif kind == "response.reasoning_text.delta":
            items.delta(event, "reasoning")
        elif kind in (
            "response.function_call_arguments.delta",
            "response.custom_tool_call_input.delta",
        ):
            items.delta(
                event, "function_call" if "function" in kind else "custom_tool_call"
            )
            reading.pieces += bool(event["delta"])
        elif kind in ("response.output_text.done", "response.reasoning_text.done"):
            items.whole("message" if "output" in kind else "reasoning", event["text"])
        elif kind == "response.function_call_arguments.done":
            items.whole("function_call", event["arguments"])
            items.told_done = True
        elif kind == "response.custom_tool_call_input.done":
            items.whole("custom_tool_call", event["input"])
        elif kind in _TERMINAL:
            final = event["response"]
        elif kind == "error" or "error" in event:
            reading.breaks("error-event", data[:300])
    if items.open is not None:
        if (
            items.kind != "custom_tool_call"
        ):  # which, when it is cut, has no other way to say so
            reading.breaks("item-order", f"{items.kind} is never done")
        if items.kind in _CALLS:
            text = (
                items.text
                if items.kind == "function_call"
                else _as_json(items.text)[:-2]
            )
            reading.calls.append(
                ReadCall(
                    items.open.get("name") or "", items.open.get("call_id") or "", text
                )
            )
        elif items.kind == "message":
            reading.content += items.text
        else:
            reading.reasoning += items.text
    if final is None:
        reading.breaks("terminal-event", "no response.completed")
    else:
        _same_output(
            reading,
            final,
            cut_custom=items.open is not None and items.kind == "custom_tool_call",
        )
        _finish(reading, final)
    reading.close()
    return reading


def _same_output(reading: Reading, final: dict[str, Any], *, cut_custom: bool) -> None:
    """The terminal event carries the whole output again: it must be what was streamed."""
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
