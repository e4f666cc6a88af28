# SPDX-License-Identifier: Apache-2.0
"""Random schedules of one release: how many meet a wrong state, and how much of the
prompts comes from the cache.

``python -m prefix_cache.schedules SEEDS`` prints all of them;
``python -m prefix_cache.schedules SHAPE MODE K CACHE SEED`` runs one.
"""

import itertools
import json
import logging
import random
import sys
from typing import Any

from prefix_cache.engine import Engine, Setting, WrongCache

BLOCK = 12
REQUESTS = 12
#: A roomy cache and one that preempts; a step's budget that cuts prompts at uneven
#: places.
CACHES = ((140, 26), (56, 25))
KS = (0, 3, 5, 7)
MODES = {"off": False, "on": True}
#: What is served, by name. Drafters' blocks divide that of the states, share a divisor
#: with it, share none, or are larger; DFlash and DSpark have windows of some layers.
SHAPES: dict[str, dict[str, Any]] = {
    "MTP": {},
    "MTP, match unit": {"unit": 4},
    "MTP, short chunks, two ranks": {"chunk": 15, "ranks": 2},
    "drafter, block 1/3": {"drafter": 4},
    "drafter, block 2/3": {"drafter": 8},
    "drafter, block 5/12": {"drafter": 5},
    "drafter, block 3/2": {"drafter": 18},
    "drafter with a window": {"drafter": 4, "window": 6},
}
#: Drafters that draft a whole block at once; MTP is served with five at most.
DEEP = 15


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


def setting(shape: str, mode: str, k: int, cache: int) -> Setting:
    """What a schedule is served with; a block is longer than its drafts."""
    scale = 1 if k < BLOCK else 2
    blocks, budget = CACHES[cache]
    given = {
        name: value * (scale if name in ("drafter", "window", "unit") else 1)
        for name, value in SHAPES[shape].items()
    }
    served: dict[str, Any] = {"ahead": MODES[mode], "grammar": True, **given}
    return Setting(k, scale * BLOCK, blocks, scale * budget, **served)


def judge(shape: str, mode: str, k: int, seeds: int) -> dict[str, Any]:
    """All schedules of a shape with ``k`` drafted tokens.

    ``first`` names a wrong schedule, in the words that repeat it.
    """
    if not setting(shape, mode, k, 0).served:
        return {"runs": 0}
    wrong: list[str] = []
    stopped = hit = prompts = 0
    runs = [*itertools.product(range(len(CACHES)), range(seeds))]
    for cache, seed in runs:
        try:
            engine = run(seed, setting(shape, mode, k, cache))
        except WrongCache as fault:
            wrong.append(f"'{shape}' {mode} {k} {cache} {seed}: {fault}")
        except AssertionError:  # vLLM's own: the engine ends
            stopped += 1
        else:
            hit += engine.hit_tokens
            prompts += engine.prompt_tokens
    share = round(hit / max(prompts, 1), 2)
    row = {"runs": len(runs), "wrong": len(wrong), "hit": share, "first": wrong[:1]}
    return row | ({"stopped": stopped} if stopped else {})


def turns(k: int, count: int = 30) -> float | None:
    """The share of an agent's prompts that comes from the cache: each of its turns
    sends all that was said, and what a tool answered. None: it met a wrong state.
    """
    pick = random.Random(1)
    engine = Engine(Setting(k, BLOCK, 2000, 8 * BLOCK, ahead=True, longest=4096))
    history = [pick.randrange(3) for _ in range(10 * BLOCK)]
    for _ in range(count):
        name = engine.add(history, 20)
        try:
            engine.finish(k // 2)
        except WrongCache:
            return None
        answer = [pick.randrange(3) for _ in range(pick.randrange(5, 5 * BLOCK))]
        history = [*engine.requests[name].all_token_ids, *answer]
    return round(engine.hit_tokens / engine.prompt_tokens, 2)


def main(*arguments: str) -> None:
    if len(arguments) > 1:
        shape, mode, k, cache, seed = arguments
        run(int(seed), setting(shape, mode, int(k), int(cache)))
        return print("right")
    rows = {}
    for shape, given in SHAPES.items():
        depths = (*KS[1:], DEEP) if "drafter" in given else KS
        rows[shape] = {
            mode: {str(k): judge(shape, mode, k, int(arguments[0])) for k in depths}
            for mode in MODES
        }
    print(json.dumps({"shapes": rows, "turns": {str(k): turns(k) for k in (0, 3)}}))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(*sys.argv[1:])
