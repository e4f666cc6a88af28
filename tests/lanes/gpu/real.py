# SPDX-License-Identifier: Apache-2.0
"""Real weights: nobody knows their answers, so they are held against each other.

Each prompt is asked on every surface, streamed and not, under greedy decoding. Two
answers of the same tokens must be the same message.

``tool_eval`` plays conversations of some turns with tools that answer from a script, and
the package tool-eval-bench judges them: a scenario passes (2 points), passes in part (1)
or fails (0). It judges model and server together and mends arguments whose last brackets
are missing, so only stock beside patched says something of a parser. Scenarios that the
server failed are left out of the points and counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance import check
from conformance.case import STARTS, Case, Expected, Run, Tool
from conformance.reading import Reading
from cpu.asking import Answer, Verdict
from cpu.questions import MODEL_NAME, Question, ways

#: No answer may be longer; one that is, is cut.
MAX_TOKENS = 4096
#: Conversations at a time: in a crowded server they time out, as the package warns.
AT_ONCE = 16
#: A server that says nothing for so long has failed the scenario, in seconds.
_SILENCE = 120.0
#: The bound of one turn in tokens, and of a conversation in turns (the package's own).
_TURN_TOKENS, _MAX_TURNS = 8192, 8


def questions() -> list[Question]:
    """Every prompt on every surface, streamed and not; the first has a long answer."""
    file = Path(__file__).parent / "prompts.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    asked: list[Question] = []
    for prompt in said["prompts"]:
        tools = [Tool(name=n, parameters=said["tools"][n]) for n in prompt["tools"]]
        user = [{"role": "user", "content": prompt["user"]}]
        case = Case.model_construct(
            name=prompt["id"],
            tools=tuple(tools),
            tool_choice=prompt.get("tool_choice", "auto"),
            request={},
            stop_string="",
        )
        start = STARTS["open" if prompt.get("thinking") else "closed"]
        unknown = Run(start=start, output="", expected=Expected(finish_reason="stop"))
        asked += ways(case.name, case, unknown, MAX_TOKENS, messages=user)
    return asked


def verdicts(answers: Sequence[Answer]) -> list[Verdict]:
    """A verdict on each; those of the same tokens are compared with the first."""
    first: dict[tuple[str, tuple[int, ...]], Reading] = {}
    found = []
    for answer in answers:
        reading, question = answer.reading, answer.question
        cut = reading.finish == "length"
        why = [
            broken
            for broken in reading.broken
            if not (cut and broken.startswith("valid-json"))
        ]
        if answer.tokens and not cut:
            other = first.setdefault((question.name, answer.tokens), reading)
            if check.same(reading, other):
                why.append("another message was made of the same tokens")
        kind = "right" if not why else "parser" if answer.id else "request"
        found.append({"kind": kind, "what": str(question), "why": why})
    return found


async def tool_eval(url: str, chosen: Sequence[Any] | None = None) -> dict[str, Any]:
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
        extra_params={"max_tokens": _TURN_TOKENS},
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
