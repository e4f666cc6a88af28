# SPDX-License-Identifier: Apache-2.0
"""Real weights in conversations with tools: tool-eval-bench, judged by that package.

A scenario is one conversation of some turns with tools that answer from a script; it
passes (2 points), passes in part (1) or fails (0). The package judges model and server
together and mends arguments whose last brackets are missing, so only stock beside
patched says something of a parser. Scenarios that the server failed are left out of the
points and counted apart.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from cpu.questions import MODEL_NAME

#: Conversations at a time: in a crowded server they time out, as the package warns.
AT_ONCE = 16
#: A server that says nothing for so long has failed the scenario, in seconds.
_SILENCE = 120.0
#: The bound of one turn in tokens, and of a conversation in turns (the package's own).
MAX_TOKENS, _MAX_TURNS = 8192, 8


def installed() -> bool:
    """Whether the package is here; the official image has it not."""
    return importlib.util.find_spec("tool_eval_bench") is not None


async def judge(url: str, chosen: Sequence[Any] | None = None) -> dict[str, Any]:
    """Play scenarios with the server at ``url``, greedily; all 97 by default."""
    from tool_eval_bench import __version__
    from tool_eval_bench.api import run_benchmark
    from tool_eval_bench.evals.scenarios import ALL_SCENARIOS_WITH_HARDMODE

    said = await run_benchmark(
        model=MODEL_NAME,
        base_url=url,
        backend="vllm",
        scenarios=list(chosen or ALL_SCENARIOS_WITH_HARDMODE),
        temperature=0.0,
        seed=1,
        max_turns=_MAX_TURNS,
        concurrency=AT_ONCE,
        timeout_seconds=_SILENCE,
        extra_params={"max_tokens": MAX_TOKENS},
        persist=False,
        probe_engine=False,
    )
    scores = said["scores"]
    failed = set(scores.get("excluded_scenarios", []))
    return {
        "tool-eval-bench": __version__,
        "points": [scores["total_points"], scores["max_points"]],
        "failed_by_server": len(failed),
        "verdicts": {
            one["scenario_id"]: one["status"]
            for one in scores["scenario_results"]
            if one["scenario_id"] not in failed
        },
    }
