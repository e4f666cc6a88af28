# SPDX-License-Identifier: Apache-2.0
"""What clients send back of a reply, on each surface, and what they add to it."""

import json
from typing import Any

Body = dict[str, Any]
#: What a reply said, and the results of its calls.
Said = tuple[list[Body], list[Body]]

#: ``JavaScript`` has one type of number, and sends the thoughts of a chat by their
#: older name; ``Python`` sends all as it came.
CLIENTS = ("Python", "JavaScript")
RESULT = "done"
QUESTION = {"role": "user", "content": "And now?"}


def _numbers(value: Any) -> Any:
    """Return a JSON value with its numbers as JavaScript writes them."""
    if isinstance(value, dict):
        return {key: _numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _arguments(text: str, client: str) -> str:
    """Return a call's argument text; what is no JSON is sent as it came."""
    try:
        arguments = json.loads(text)
    except (TypeError, ValueError):
        return text
    if client == "JavaScript":
        text = json.dumps(_numbers(arguments), ensure_ascii=False)
    return text


def _chat(reply: Body, client: str) -> Said:
    message = reply["choices"][0]["message"]
    thought = message.get("reasoning") or message.get("reasoning_content")
    name = "reasoning" if client == "Python" else "reasoning_content"
    said = {"role": "assistant", "content": message["content"] or ""}
    said |= {name: thought} if thought else {}
    calls = [
        {
            **call,
            "function": {
                "name": call["function"]["name"],
                "arguments": _arguments(call["function"]["arguments"], client),
            },
        }
        for call in message.get("tool_calls") or ()
    ]
    said |= {"tool_calls": calls} if calls else {}
    return [said], [
        {"role": "tool", "tool_call_id": call["id"], "content": RESULT}
        for call in calls
    ]


def _responses(reply: Body, client: str) -> Said:
    items = [
        {name: value for name, value in item.items() if value is not None}
        for item in reply["output"]
    ]
    calls = [item for item in items if item["type"] == "function_call"]
    for call in calls:
        call["arguments"] = _arguments(call["arguments"], client)
    return items, [
        {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": RESULT,
        }
        for call in calls
    ]


def _messages(reply: Body, client: str) -> Said:
    blocks = reply["content"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    if client == "JavaScript":
        blocks = [
            {**block, "input": _numbers(block["input"])} if block in calls else block
            for block in blocks
        ]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": RESULT}
        for call in calls
    ]
    behind = [{"role": "user", "content": results}] if results else []
    return [{"role": "assistant", "content": blocks}], behind


_OF = {"chat": _chat, "responses": _responses, "messages": _messages}


def again(surface: str, body: Body, reply: Body, client: str) -> Body:
    """Return the request behind a reply: results of its calls, or another question.

    Args:
        reply: The response, which was not streamed.
        client: One of ``CLIENTS``.
    """
    field = "input" if surface == "responses" else "messages"
    said, results = _OF[surface](reply, client)
    return {**body, field: [*body[field], *said, *(results or [QUESTION])]}
