# SPDX-License-Identifier: Apache-2.0
"""What a request and its assembled answer look like on every surface."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

from cpu.transcripts import Call, Finish, Message, Transcript

#: Seconds for one request; a server that hangs must not hang the lane.
REQUEST_SECONDS = 300


@dataclass(frozen=True)
class Clients:
    """The two packages' clients for one server."""

    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    model: str


@dataclass(frozen=True)
class Ask:
    """One request: a transcript, streamed or not; ``history`` are the messages before the answer in the surface's
    own form, ``max_tokens`` ends the answer early, ``thinking_token_budget`` (chat only) the reasoning."""

    transcript: Transcript
    streamed: bool
    history: list[dict[str, Any]]
    max_tokens: int | None = None
    thinking_token_budget: int | None = None


@dataclass
class Got:
    """An assembled answer. ``arguments`` are the calls' argument texts as they arrived; ``broken`` lists rules of
    the protocol that the answer broke; ``history`` repeats the answer for a second turn."""

    id: str = ""
    reasoning: str = ""
    content: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    finish: Finish | str = ""
    broken: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    output_tokens: int | None = None

    def message(self) -> Message:
        """The answer as a message; argument text that is no JSON object stays visible under ``""``."""
        calls = tuple(
            Call(name, _parsed(text))
            for name, text in zip(self.names, self.arguments, strict=True)
        )
        return Message(self.reasoning, self.content, calls, self.finish)  # type: ignore[arg-type]


def clients(url: str, model: str) -> Clients:
    """Clients which do not retry: an answer that fails is a result."""
    named: dict[str, Any] = {
        "api_key": "none",
        "max_retries": 0,
        "timeout": REQUEST_SECONDS,
    }
    return Clients(
        openai.AsyncOpenAI(base_url=f"{url}/v1", **named),
        anthropic.AsyncAnthropic(base_url=url, **named),
        model,
    )


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    return "" not in _parsed(text)


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"": text}
    return value if isinstance(value, dict) else {"": text}
