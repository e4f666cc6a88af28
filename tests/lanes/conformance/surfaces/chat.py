# SPDX-License-Identifier: Apache-2.0
"""``/v1/chat/completions``."""

import json
from typing import Any

from conformance.case import Case, Start
from conformance.reading import ReadCall, Reading, sse
from conformance.surfaces.request import request as common

NAME = "chat"
PATH = "/v1/chat/completions"


def request(case: Case, start: Start, *, stream: bool, model: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": t.model_dump()} for t in case.tools]
    more = {"model": model, "stream": stream}
    return common(case, start, NAME, tools, case.tool_choice, **more)


def read_full(body: bytes) -> Reading:
    reading, document = Reading(), json.loads(body)
    choice = document["choices"][0]
    message = choice["message"]
    reading.content = message.get("content") or ""
    reading.reasoning = (
        message.get("reasoning") or message.get("reasoning_content") or ""
    )
    for call in message.get("tool_calls") or []:
        function = call["function"]
        reading.calls.append(
            ReadCall(function["name"], call.get("id") or "", function["arguments"])
        )
    reading.finish, reading.stopped_by = (
        choice.get("finish_reason"),
        _stopped_by(choice),
    )
    return reading.close()


def read_stream(body: bytes) -> Reading:
    reading, finished, done, last_call, left = Reading(), False, False, -1, set()
    for _, data in sse(body):
        if done:
            reading.breaks("terminal-event", "an event after [DONE]")
        if data == "[DONE]":
            done = True
            continue
        chunk = json.loads(data)
        if "error" in chunk or chunk.get("object") == "error":
            reading.fails("error-event", data[:300])
            continue
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            content, calls = delta.get("content") or "", delta.get("tool_calls") or []
            reasoning = delta.get("reasoning") or delta.get("reasoning_content") or ""
            if (bool(content) + bool(calls) + bool(reasoning)) > 1:
                reading.breaks("one-kind", f"{data[:200]}")
            if finished and (content or calls or reasoning):
                reading.breaks("terminal-event", "a delta after the finish reason")
            if reasoning:
                if reading.content.strip() or reading.calls:
                    reading.breaks(
                        "order", f"reasoning {reasoning[:40]!r} after content or calls"
                    )
                reading.reasoning += reasoning
            if content:
                if last_call >= 0:
                    left.add(last_call)
                reading.content += content
            for call in calls:
                last_call = _add(reading, call, last_call, left)
            if choice.get("finish_reason"):
                if finished:
                    reading.breaks("finish-reason", "given twice")
                finished, reading.finish = True, choice["finish_reason"]
                reading.stopped_by = _stopped_by(choice)
    if not done:
        reading.breaks("terminal-event", "no [DONE]")
    return reading.close()


def _stopped_by(choice: dict[str, Any]) -> str:
    """Return the stop string that a choice names; a stop token is none."""
    reason = choice.get("stop_reason")
    return reason if isinstance(reason, str) else ""


def _add(reading: Reading, call: dict[str, Any], last: int, left: set[int]) -> int:
    """Add a tool-call delta as OpenAI's SDK does: by its index, text to text.

    Args:
        left: The calls that content has followed.

    Returns:
        The call's index.

    """
    function, index = call.get("function") or {}, call.get("index")
    name, arguments = function.get("name") or "", function.get("arguments") or ""
    if not isinstance(index, int) or not 0 <= index <= len(reading.calls):
        reading.fails("index", f"{index} after {len(reading.calls)} calls")
        index = len(reading.calls)
    if index == len(reading.calls):
        if not name:
            reading.breaks("name-first", f"call {index} begins without its name")
        if not call.get("id"):
            reading.breaks("call-id", f"call {index} begins without its id")
        if not isinstance(function.get("arguments"), str):
            reading.breaks("first-arguments", f"call {index} begins without arguments")
        reading.calls.append(ReadCall())
    else:
        if name:
            reading.breaks("name-first", f"call {index} is named again")
        if index < last:
            reading.breaks("index", f"a delta of call {index} after one of call {last}")
        if index in left and arguments:
            reading.breaks(
                "content-inside-call",
                f"content stands between the arguments of call {index}",
            )
    read = reading.calls[index]
    read.name += name
    read.id += call.get("id") or ""
    read.text = (read.text or "") + arguments
    reading.pieces += bool(arguments)
    return index
