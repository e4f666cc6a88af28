# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Counts how the calls of the Qwen3-Coder format were read.

The counter stands beside the release's own parser metrics, and is there if they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from prometheus_client import REGISTRY, Counter

from vllm.parser import metrics

NAME = "vllm:qwen_tool_calls_total"
# plain: counted at once; held: counted once the output's rest was there; forgiven: its
# closing tags were not whole; cut: the output ended within it; text: held, and no call.
OUTCOMES = ("plain", "held", "forgiven", "cut", "text")

_counter: Counter | None = None


def register() -> None:
    """Register the counter with all outcomes, once the release's own one is."""
    global _counter
    if metrics._model_name is None:
        return
    try:
        _counter = Counter(
            name=NAME,
            documentation="Calls in the Qwen3-Coder format, by how they were read.",
            labelnames=["model_name", "outcome"],
        )
    except ValueError:  # a further server of this process
        _counter = cast(Counter, REGISTRY._names_to_collectors[NAME])
    record(dict.fromkeys(OUTCOMES, 0))


def record(outcomes: Mapping[str, int]) -> None:
    """Count an output's calls by outcome."""
    if _counter is None:
        return
    for outcome, calls in outcomes.items():
        _counter.labels(model_name=metrics._model_name, outcome=outcome).inc(calls)
