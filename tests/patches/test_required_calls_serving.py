# SPDX-License-Identifier: Apache-2.0
"""Proof of required-calls and its hook: ``tool_choice`` required or named, whatever a step delivers (E12)."""

from __future__ import annotations

import json

import pytest
from old_harness import WIDTHS, arguments, ask

CALLS = [
    {"name": "read", "parameters": {"path": "/a"}},
    {"name": "write", "parameters": {"path": "/b", "content": "}]"}},
]
NAMED = {"type": "function", "function": {"name": "read"}}


@pytest.mark.parametrize("reasoning", ["none", "qwen3"])
@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_required(width: int | None, reasoning: str) -> None:
    thought = "Hm." if reasoning == "qwen3" else ""
    output = f"{thought}</think>\n\n" * bool(thought) + json.dumps(CALLS)
    prompt = "open" if thought else "none"
    reading = ask(output, width, reasoning=reasoning, prompt=prompt, tool_choice="required")
    assert arguments(reading) == [("read", {"path": "/a"}), ("write", {"path": "/b", "content": "}]"})]
    assert (reading.reasoning, reading.content, reading.finish) == (thought, "", "tool_calls")


@pytest.mark.parametrize("reasoning", ["none", "qwen3"])
@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_named(width: int | None, reasoning: str) -> None:
    thought = "Hm." if reasoning == "qwen3" else ""
    output = f"{thought}</think>\n\n" * bool(thought) + '{"path": "/a"}'
    prompt = "open" if thought else "none"
    reading = ask(output, width, reasoning=reasoning, prompt=prompt, tool_choice=NAMED)
    # vLLM's finish reason of a call that the request named is ``stop``.
    reading.broken = [one for one in reading.broken if not one.startswith("finish-reason")]
    assert arguments(reading) == [("read", {"path": "/a"})]
    assert (reading.reasoning, reading.content, reading.finish) == (thought, "", "stop")
