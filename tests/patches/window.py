# SPDX-License-Identifier: Apache-2.0
"""A tree's own server application whose context is small, asked by path."""

import functools
import json
from pathlib import Path
from typing import Any

import harness
from conformance.host.engine import MODEL

#: Tokens of the context.
CONTEXT = 2000
#: What the surfaces call the bound of output tokens.
BOUNDS = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/v1/messages": "max_tokens",
}


@functools.cache
def application() -> Any:
    """The application, made once; it keeps what a request's engine was asked for."""
    options = ("--max-model-len", str(CONTEXT))
    app = harness.application("none", "qwen3_coder", *options)
    engine = app.state.engine_client
    generate = engine.generate

    def recorded(prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        plain = isinstance(prompt, dict)
        ids = prompt["prompt_token_ids"] if plain else prompt.prompt_token_ids
        app.state.asked = len(ids), params.max_tokens
        return generate(prompt, params, *args, **kwargs)

    engine.generate = recorded
    return app


def words(count: int) -> str:
    """A text of so many tokens."""
    return " word" * count


def body(path: str, text: str, **fields: Any) -> dict[str, Any]:
    """A request of a surface."""
    said = [{"role": "user", "content": text}]
    key, value = {
        "/v1/completions": ("prompt", text),
        "/v1/responses": ("input", text),
    }.get(path, ("messages", said))
    if path == "/v1/messages":
        fields.setdefault("max_tokens", 16)
    return {"model": MODEL, key: value, **fields}


def ask(path: str, text: str, **fields: Any) -> tuple[int, bytes]:
    """Status and body of an answer."""
    said = harness.script("Yes.", 1 if fields.get("stream") else 100_000)
    return harness.post(application(), path, body(path, text, **fields), said)


def error(path: str, text: str, status: int = 400, **fields: Any) -> dict[str, Any]:
    """The error of an answer, whose status is checked."""
    found, answer = ask(path, text, **fields)
    assert found == status, answer
    document: dict[str, Any] = json.loads(answer)["error"]
    return document


def source(place: str) -> str:
    """A file of the tree."""
    import vllm

    return (Path(vllm.__file__).parent / place).read_text(encoding="utf-8")
