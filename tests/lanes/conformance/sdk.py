# SPDX-License-Identifier: Apache-2.0
"""What OpenAI's and Anthropic's own clients assemble from a stream.

The suite's readers of streams are faster and say what is wrong; on a sample they are
held to these.
"""

import importlib
import zlib
from typing import Any

import anthropic
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from conformance.reading import Reading
from conformance.surfaces.responses import as_json

#: The HTTP package that the SDKs speak: httpx, or httpx2 in newer ones.
httpx: Any = importlib.import_module(
    openai.DefaultHttpxClient.__base__.__module__.partition(".")[0]
)

#: One stream in so many is sampled.
EVERY = 16


def sampled(key: str) -> bool:
    """Return whether a stream of this name is in the sample, which never changes."""
    return zlib.crc32(key.encode()) % EVERY == 0


def difference(surface: str, body: bytes, reading: Reading) -> str:
    """Return how the SDK's message differs from what we read; empty if it does not."""

    def answer(request: httpx.Request) -> httpx.Response:
        kind = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=kind, content=body, request=request)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        try:
            theirs = _ASSEMBLE[surface](client)
        except Exception as error:  # whatever the SDK does not take
            why = f"{type(error).__name__}: {error}"
            return "" if reading.failed else f"the SDK raised {why}"
    if reading.failed:
        return f"the SDK read {theirs}, we {reading.broken}"
    parses = surface == "messages"
    for what, ours in (
        ("reasoning", reading.reasoning),
        ("content", reading.content),
        (
            "calls",
            [(c.name, c.id, c.given if parses else c.text) for c in reading.calls],
        ),
    ):
        if ours != theirs[what]:
            return f"{what}: the SDK read {theirs[what]!r}, we {ours!r}"
    return ""


def _chat(client: httpx.Client) -> dict[str, Any]:
    sdk = openai.OpenAI(api_key="-", base_url="http://server/v1", http_client=client)
    state = ChatCompletionStreamState()
    for chunk in sdk.chat.completions.create(model="-", messages=[], stream=True):
        state.handle_chunk(chunk)
    message = state.current_completion_snapshot.choices[0].message
    extra = message.model_extra or {}
    return {
        "reasoning": extra.get("reasoning") or extra.get("reasoning_content") or "",
        "content": message.content or "",
        "calls": [
            (call.function.name or "", call.id or "", call.function.arguments or "")
            for call in message.tool_calls or []
        ],
    }


def _responses(client: httpx.Client) -> dict[str, Any]:
    sdk = openai.OpenAI(api_key="-", base_url="http://server/v1", http_client=client)
    final = None
    with sdk.responses.stream(model="-", input="-") as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
    if final is None:
        raise RuntimeError("no final response")
    texts = {"message": "", "reasoning": ""}
    calls = []
    for item in final.output:
        if item.type in texts:
            texts[item.type] += "".join(part.text for part in item.content or [])
        else:
            space = getattr(item, "namespace", None)
            name = f"{space}__{item.name}" if space else item.name
            custom = item.type == "custom_tool_call"
            text = as_json(item.input) if custom else item.arguments
            calls.append((name, item.call_id, text))
    return {
        "reasoning": texts["reasoning"],
        "content": texts["message"],
        "calls": calls,
    }


def _messages(client: httpx.Client) -> dict[str, Any]:
    sdk = anthropic.Anthropic(api_key="-", base_url="http://server", http_client=client)
    with sdk.messages.stream(model="-", max_tokens=1, messages=[]) as stream:
        blocks = stream.get_final_message().content
    calls = [(b.name, b.id, b.input) for b in blocks if b.type == "tool_use"]
    return {
        "reasoning": "".join(b.thinking for b in blocks if b.type == "thinking"),
        "content": "".join(b.text for b in blocks if b.type == "text"),
        "calls": calls,
    }


_ASSEMBLE = {"chat": _chat, "responses": _responses, "messages": _messages}
