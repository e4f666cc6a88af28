# SPDX-License-Identifier: Apache-2.0
"""Asks a release's own server application, whose engine says what a proof scripts.

For what the parser alone cannot show: what serving makes of a step, and of the output's
end. The application is the conformance suite's host; an output is cut into steps as
there.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from typing import Any

import httpx

from harness import TOOLS

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from conformance import tokens
from conformance.reading import Reading, failed
from conformance.surfaces import chat, messages, responses

SURFACES: dict[str, Any] = {"chat": chat, "responses": responses, "messages": messages}

#: Tokens a step delivers: one, few, all.
WIDTHS = (1, 2, 3, 5, 100_000)

#: A response that takes longer, in seconds, is a hang.
LIMIT = 60

_LOOP = asyncio.new_event_loop()


@functools.cache
def application(reasoning: str, parser: str = "qwen3_coder", *options: str) -> Any:
    """The release's application, made once.

    Args:
        reasoning: A reasoning parser, or "none".
        options: More of ``vllm serve``'s command line.
    """
    from conformance.host.engine import build

    line = ["--tool-call-parser", parser, *options]
    return _LOOP.run_until_complete(build(str(tokens.model_folder()), reasoning, line))


@functools.cache
def plain_tokenizer() -> Any:
    """Qwen's, without a release's wrapping."""
    return tokens.load()


def script(output: str, width: int, end: str, stop: str | None = None) -> Any:
    """The steps of an output; one that stopped by itself ends with the end token,
    which adds no text.
    """
    from conformance.host.engine import Script

    ids = tokens.encode(plain_tokenizer(), output)
    texts = tokens.deltas(plain_tokenizer(), ids)
    if end == "stop" and stop is None:
        ids, texts = [*ids, plain_tokenizer().token_to_id(tokens.EOS)], [*texts, ""]
    bursts = [
        ("".join(texts[at : at + width]), tuple(ids[at : at + width]))
        for at in range(0, len(ids), width)
    ]
    return Script(tuple(bursts), end, stop)


def _body(
    surface: str, prompt: str, stream: bool, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    from conformance.host.engine import MODEL

    text = "hello" if prompt == "none" else f"hello [prompt:{prompt}]"
    functions = [one["function"] for one in tools]
    if surface == "chat":
        listed: list[dict[str, Any]] = tools
    elif surface == "responses":
        listed = [{"type": "function", "strict": False, **one} for one in functions]
    else:
        listed = [
            {"name": one["name"], "input_schema": one["parameters"]}
            for one in functions
        ]
    body: dict[str, Any] = {"model": MODEL, "stream": stream}
    if surface == "responses":
        body["input"] = text
    else:
        body["messages"] = [{"role": "user", "content": text}]
    if surface == "messages":
        body["max_tokens"] = 100_000
    if listed:
        body["tools"] = listed
    return body


def raw(
    output: str,
    width: int | None = None,
    *,
    surface: str = "chat",
    reasoning: str = "none",
    parser: str = "qwen3_coder",
    prompt: str = "none",
    end: str = "stop",
    stop: str | None = None,
    tools: list[dict[str, Any]] = TOOLS,
    **fields: Any,
) -> tuple[int, bytes]:
    """Status and body of one response; not streamed without a width.

    ``prompt`` says whether the prompt's end opened or closed the reasoning ("open",
    "closed", "none"), ``end`` how the output ended and ``stop`` at which stop string,
    and ``fields`` go into the request.
    """
    from vllm.parser.parser_manager import ParserManager

    from conformance.host.engine import SCRIPT

    body = _body(surface, prompt, width is not None, tools) | fields
    app = application(reasoning, parser)
    # Before v0.23.0 all applications of a process share one parser class, which the
    # last look-up has set up.
    ParserManager.get_parser(parser, None if reasoning == "none" else reasoning, True)
    SCRIPT.set(script(output, width or 100_000, end, stop))
    return post(app, SURFACES[surface].PATH, body)


def post(app: Any, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body of an answer."""
    return _LOOP.run_until_complete(asyncio.wait_for(_post(app, path, body), LIMIT))


async def _post(app: Any, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    # Where the application raises, a client has an error's status, or a stream that
    # ends too early.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://tree", timeout=None
    ) as client:
        answer = await client.post(path, json=body)
    return answer.status_code, answer.content


def ask(
    output: str, width: int | None = None, *, surface: str = "chat", **options: Any
) -> Reading:
    """What a client reads."""
    status, answer = raw(output, width, surface=surface, **options)
    if status != 200:
        return failed(status, answer)
    reader = SURFACES[surface]
    reading: Reading = (
        reader.read_full(answer) if width is None else reader.read_stream(answer)
    )
    return reading


def arguments(reading: Reading) -> list[tuple[str, Any]]:
    """Name and parsed arguments of the calls of a response without a broken form."""
    assert reading.broken == []
    return [(one.name, one.parsed) for one in reading.calls]


def events(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    """The events of a stream, as it sends them."""
    from conformance.reading import sse

    _, answer = raw(output, width, **options)
    return [json.loads(data) for _, data in sse(answer) if data != "[DONE]"]


def chat_choices(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    """The choices of a chat stream's chunks."""
    found = events(output, width, **options)
    return [choice for chunk in found for choice in chunk.get("choices") or ()]


def chat_deltas(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    """The deltas of a chat stream, those that say nothing left out."""
    said = [
        {key: value for key, value in delta.items() if value and key != "role"}
        for choice in chat_choices(output, width, **options)
        if (delta := choice.get("delta"))
    ]
    return [delta for delta in said if delta]
