"""LiteLLM's own completion call, streamed, over chat completions or messages, with the loop that its documentation shows."""

from __future__ import annotations

import json
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library, write_file

TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Write a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}


def ask(run: dict[str, Any]) -> str:
    """One run."""
    import litellm

    litellm.telemetry = False
    litellm.drop_params = True
    chat = run["surface"] == "chat"
    model, base = (f"hosted_vllm/{MODEL}", run["url"] + "/v1") if chat else (f"anthropic/{MODEL}", run["url"])
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(40):
        stream = litellm.completion(
            model=model,
            api_base=base,
            api_key=KEY,
            messages=messages,
            tools=[TOOL],
            stream=True,
            num_retries=0,
        )
        message = litellm.stream_chunk_builder(list(stream), messages=messages).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            try:
                told = write_file(**json.loads(call.function.arguments)) if call.function.name == "write_file" else (
                    f"error: there is no tool {call.function.name}")  # fmt: skip
            except (TypeError, ValueError) as error:
                told = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
    raise RuntimeError("40 turns, and no end")


class LiteLLM(Library):
    """It reads the stream's lines by Python's idea of a line."""

    faults = {"unicode": "it ends a line of the stream at U+2028, U+2029 and U+0085 too"}  # noqa: RUF012


CLIENT = LiteLLM("litellm", ("chat", "messages"), ask)
