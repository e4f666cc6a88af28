# SPDX-License-Identifier: Apache-2.0
"""Random schedules of one release: how many meet a wrong state, and how much of the
prompts comes from the cache.
"""

import json
import logging
import random
import sys
from typing import Any

from prefix_cache.engine import Engine, Setting, WrongCache

BLOCK = 8
REQUESTS = 12
#: A roomy cache and one that preempts; a step's budget that cuts prompts at uneven
#: places.
CACHES = ((100, 17), (40, 20))


def run(seed: int, setting: Setting) -> Engine:
    """Requests that share beginnings with each other and with finished ones, as turns
    of an agent do.

    Raises:
        WrongCache: as ``Engine.step``.
    """
    pick = random.Random(seed)
    engine = Engine(setting)
    stems = [
        [pick.randrange(3) for _ in range(pick.randrange(5, 8 * BLOCK))]
        for _ in range(3)
    ]
    while len(engine.requests) < REQUESTS:
        if pick.random() < 0.3:
            ended = [
                list(r.all_token_ids)
                for r in engine.requests.values()
                if r.is_finished()
            ]
            stem = pick.choice(stems + ended)
            prompt = stem[: pick.randrange(3, len(stem) + 1)]
            prompt += [pick.randrange(3) for _ in range(pick.randrange(2 * BLOCK))]
            engine.add(prompt, pick.randrange(1, 25))
        engine.step(pick.randrange(setting.mtp + 1))
    engine.finish(setting.mtp // 2)
    return engine


def judge(mtp: int, seeds: int, ahead: bool) -> dict[str, Any]:
    """All schedules with ``mtp`` drafted tokens, with or without scheduling ahead."""
    if not Setting(mtp, ahead=ahead).served:
        return {"runs": 0}
    wrong: list[str] = []
    runs = hit = prompts = 0
    for blocks, budget in CACHES:
        for seed in range(seeds):
            runs += 1
            try:
                engine = run(seed, Setting(mtp, BLOCK, blocks, budget, ahead=ahead))
            except WrongCache as fault:
                wrong.append(str(fault))
            else:
                hit += engine.hit_tokens
                prompts += engine.prompt_tokens
    return {
        "runs": runs,
        "wrong": len(wrong),
        "hit": round(hit / max(prompts, 1), 2),
        "first": wrong[:1],
    }


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    modes = {"off": False, "on": True}
    found = {
        mode: {str(k): judge(k, int(sys.argv[1]), modes[mode]) for k in range(6)}
        for mode in modes
    }
    print(json.dumps(found))
