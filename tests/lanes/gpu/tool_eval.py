# SPDX-License-Identifier: Apache-2.0
"""Real weights in conversations with tools: the scenarios of the package tool-eval-bench, judged by that package.

A scenario is one conversation of some turns with tools that answer from a script; it passes (2 points), passes in part
(1) or fails (0). Every turn is streamed, on chat completions. The package judges the model and the server together, so
only stock beside patched says something of a parser. It mends what it can: arguments whose last brackets are missing
count as whole. Scenarios that the server failed (timeouts, refused requests, broken streams) are left out of the points
and counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cpu import server
from gpu.pace import paired

#: Conversations at a time. The package warns that a crowded server times out; this leaves it room.
AT_ONCE = 16
#: A server that says nothing for so long has failed the scenario, in seconds.
_SILENCE = 120.0
#: The bound of one turn in tokens, thinking included, and of a conversation in turns (the package's own).
MAX_TOKENS, _MAX_TURNS = 8192, 8


def scenarios() -> list[Any]:
    """All 97: the standard ones and the package's "Hard Mode"."""
    from tool_eval_bench.evals.scenarios import ALL_SCENARIOS_WITH_HARDMODE

    return list(ALL_SCENARIOS_WITH_HARDMODE)


async def judge(url: str, chosen: Sequence[Any] | None = None) -> dict[str, Any]:
    """Play scenarios, all by default, with the server at ``url``, greedily; what the package found."""
    # Not above: results are read and compared where the package is not installed.
    from tool_eval_bench import __version__
    from tool_eval_bench.api import run_benchmark

    said = await run_benchmark(
        model=server.MODEL_NAME,
        base_url=url,
        backend="vllm",
        scenarios=list(chosen or scenarios()),
        temperature=0.0,
        seed=1,
        max_turns=_MAX_TURNS,
        concurrency=AT_ONCE,
        timeout_seconds=_SILENCE,
        extra_params={"max_tokens": MAX_TOKENS},
        persist=False,
        probe_engine=False,
    )
    return {"tool-eval-bench": __version__, **report(said["scores"])}


def report(scores: dict[str, Any]) -> dict[str, Any]:
    """What a result keeps of the package's report: points, and each scenario's verdict."""
    found = {one["scenario_id"]: one for one in scores["scenario_results"]}
    failed_by_server = sorted(scores.get("excluded_scenarios", []))
    judged = {
        id: one["status"]
        for id, one in sorted(found.items())
        if id not in failed_by_server
    }
    return {
        "scenarios": len(found),
        "points": [scores["total_points"], scores["max_points"]],
        "verdicts": judged,
        "failed_by_server": {
            id: str(found[id].get("failure_kind")) for id in failed_by_server
        },
        "why": dict(
            Counter(kind for one in found.values() if (kind := one.get("failure_kind")))
        ),
    }


def compared(results: Iterable[dict[str, Any]]) -> list[str]:
    """Patched beside stock, one line for each server of which both were judged."""
    lines = []
    for where, stock, ours in paired(results, "tool_eval"):
        both = sorted(set(ours["verdicts"]) & set(stock["verdicts"]))
        other = [
            f"{id} {stock['verdicts'][id]} → {ours['verdicts'][id]}"
            for id in both
            if ours["verdicts"][id] != stock["verdicts"][id]
        ]
        lines.append(
            f"{where}: tool-eval-bench {_points(stock)} stock, {_points(ours)} patched; "
            + (", ".join(other) or "the same verdicts")
        )
    return lines


def _points(said: dict[str, Any]) -> str:
    earned, most = said["points"]
    failed = len(said["failed_by_server"])
    return f"{earned}/{most}" + (f" ({failed} failed by the server)" if failed else "")
