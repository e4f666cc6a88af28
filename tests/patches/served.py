# SPDX-License-Identifier: Apache-2.0
"""What the harness reads, read as a client of the release's own application does.

Stands in for the harness where the release's parser reads no whole answer: stock before
v0.23.0, whose serving code does part of the reading.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from harness import Message
from old_harness import ask, chat_deltas


@functools.cache
def needed() -> bool:
    """Whether the release's parser cannot be asked alone."""
    from vllm.parser.parser_manager import ParserManager

    return not hasattr(ParserManager.get_parser("qwen3_coder", "qwen3", True), "parse")


def deltas(
    text: str, width: int, *, reasoning: bool = False, **options: Any
) -> Iterator[list[Any]]:
    """The deltas of a stream."""
    from vllm.entrypoints.openai.engine.protocol import DeltaMessage

    for delta in chat_deltas(text, width, **_start(reasoning), **options):
        yield [DeltaMessage(**delta)]


def streamed(
    text: str, width: int, *, reasoning: bool = False, **options: Any
) -> Message:
    """The message that a stream of steps of ``width`` tokens adds up to."""
    return _message(text, width, reasoning, **options)


def whole(text: str, *, reasoning: bool = False, **options: Any) -> Message:
    """The message of an answer that is not streamed."""
    return _message(text, None, reasoning, **options)


def _start(reasoning: bool) -> dict[str, str]:
    return {"reasoning": "qwen3", "prompt": "open"} if reasoning else {}


def _message(text: str, width: int | None, reasoning: bool, **options: Any) -> Message:
    reading = ask(text, width, **_start(reasoning), **options)
    errors = [
        broken
        for broken in reading.broken
        if broken.startswith(("http-status", "error-event"))
    ]
    assert not errors, f"the server answers with an error: {errors}"
    calls = [(one.name, one.text or "") for one in reading.calls]
    return Message(reading.reasoning, reading.content, calls)
