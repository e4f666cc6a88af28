# SPDX-License-Identifier: Apache-2.0
"""Proof of required-calls and its hook: ``tool_choice`` required or named, whatever
a step delivers (E12).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import WIDTHS, arguments, ask

CALLS = [
    {"name": "read", "parameters": {"path": "/a"}},
    {"name": "write", "parameters": {"path": "/b", "content": "}]"}},
]
NAMED = {"type": "function", "function": {"name": "read"}}


@pytest.fixture(params=["qwen3_coder", "qwen3_xml"])
def parser(request: pytest.FixtureRequest) -> Any:
    """Each registered name whose required calls the release constrains to JSON;
    v0.21.0 leaves qwen3_coder its format.
    """
    from vllm.tool_parsers import ToolParserManager

    if not getattr(
        ToolParserManager.get_tool_parser(request.param),
        "supports_required_and_named",
        True,
    ):
        pytest.skip(f"required calls of {request.param} come in its own format")
    return request.param


@pytest.mark.parametrize("reasoning", ["none", "qwen3"])
@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_required(width: int | None, reasoning: str, parser: str) -> None:
    thought = "Hm." if reasoning == "qwen3" else ""
    output = f"{thought}</think>\n\n" * bool(thought) + json.dumps(CALLS)
    prompt = "open" if thought else "none"
    reading = ask(
        output,
        width,
        reasoning=reasoning,
        parser=parser,
        prompt=prompt,
        tool_choice="required",
    )
    assert arguments(reading) == [
        ("read", {"path": "/a"}),
        ("write", {"path": "/b", "content": "}]"}),
    ]
    assert (reading.reasoning, reading.content, reading.finish) == (
        thought,
        "",
        "tool_calls",
    )


@pytest.mark.parametrize("reasoning", ["none", "qwen3"])
@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_named(width: int | None, reasoning: str, parser: str) -> None:
    thought = "Hm." if reasoning == "qwen3" else ""
    output = f"{thought}</think>\n\n" * bool(thought) + '{"path": "/a"}'
    prompt = "open" if thought else "none"
    reading = ask(
        output,
        width,
        reasoning=reasoning,
        parser=parser,
        prompt=prompt,
        tool_choice=NAMED,
    )
    # vLLM's finish reason of a call that the request named is ``stop``.
    reading.broken = [
        one for one in reading.broken if not one.startswith("finish-reason")
    ]
    assert arguments(reading) == [("read", {"path": "/a"})]
    assert (reading.reasoning, reading.content, reading.finish) == (thought, "", "stop")
