# SPDX-License-Identifier: Apache-2.0
"""A tree's own server application whose context is small, asked by path."""

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


def application() -> Any:
    options = ("--max-model-len", str(CONTEXT))
    return harness.application("none", "qwen3_coder", *options)


def asked() -> tuple[int, int]:
    """Prompt and output tokens that the engine was asked for."""
    state = application().state
    return len(state.script.prompt), state.params.max_tokens


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


def error(path: str, text: str, status: int = 400, **fields: Any) -> Any:
    """The error of an answer, whose status is checked."""
    found, answer = ask(path, text, **fields)
    assert found == status, answer
    return harness.parsed(answer.decode())["error"]


def source(place: str) -> str:
    """A file of the tree."""
    import vllm

    return (Path(vllm.__file__).parent / place).read_text(encoding="utf-8")
