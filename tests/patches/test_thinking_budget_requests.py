# SPDX-License-Identifier: Apache-2.0
"""Proof of thinking-budget-requests: the sampler is told which requests think before
they answer, and which tokens end that (D8).
"""

import pytest

from budget import configuration, sampling_params
from harness import ids


@pytest.mark.parametrize(
    ("parser", "tools", "tool_choice", "expected"),
    [
        ("qwen3", "qwen3_coder", "auto", (True, True)),
        ("qwen3", "qwen3_coder", "required", (True, True)),
        ("qwen3", "qwen3_coder", "none", (True, False)),
        ("qwen3", "qwen3_coder", None, (True, False)),
        ("qwen3", "hermes", "auto", (True, True)),
        ("nemotron_v3", "qwen3_coder", "auto", (True, True)),
        ("deepseek_r1", "hermes", "auto", (False, True)),
    ],
)
def test_request(
    parser: str, tools: str, tool_choice: str | None, expected: tuple[bool, bool]
) -> None:
    params = sampling_params(9, tool_choice, parser, tools)
    names = ("thinks_before_answer", "tool_call_ends_thinking")
    assert tuple(getattr(params, name, None) for name in names) == expected


@pytest.mark.parametrize(("switch", "told"), [("1", True), ("0", False)])
def test_tokens(monkeypatch: pytest.MonkeyPatch, switch: str, told: bool) -> None:
    monkeypatch.setenv("VLLM_QWEN_TOOL_READER", switch)
    config = configuration(monkeypatch, "qwen3", "</think>")
    markers = getattr(config, "reasoning_markers", None)
    assert (markers is not None) == told
    if markers is not None:
        assert [markers.think_end, markers.tool_call] == ids("</think><tool_call>")
        assert markers.white_space.issuperset(ids("\n\n \t"))
        assert markers.white_space.isdisjoint(ids("So it is.<think>"))
