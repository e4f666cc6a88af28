# SPDX-License-Identifier: Apache-2.0
"""Proof of required-calls and its hook: ``tool_choice`` required or named, whatever
a step delivers (E12).
"""

import json
from typing import Any

import pytest

from harness import THINKING, WIDTHS, arguments, ask

CALLS: list[dict[str, Any]] = [
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


@pytest.mark.parametrize(
    ("choice", "said", "calls", "finish"),
    [
        ("required", CALLS, CALLS, "tool_calls"),
        # vLLM's finish reason of a call that the request named is ``stop``.
        (NAMED, CALLS[0]["parameters"], CALLS[:1], "stop"),
    ],
    ids=["required", "named"],
)
@pytest.mark.parametrize("thought", ["", "Hm."])
@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_constrained_calls(
    width: int | None,
    thought: str,
    choice: Any,
    said: Any,
    calls: list[dict[str, Any]],
    finish: str,
    parser: str,
) -> None:
    output = f"{thought}</think>\n\n" * bool(thought) + json.dumps(said)
    options: dict[str, Any] = THINKING if thought else {}
    reading = ask(output, width, parser=parser, tool_choice=choice, **options)
    if finish == "stop":
        form = [one for one in reading.broken if not one.startswith("finish-reason")]
        reading.broken = form
    assert arguments(reading) == [(one["name"], one["parameters"]) for one in calls]
    found = (reading.reasoning, reading.content, reading.finish)
    assert found == (thought, "", finish)
