# SPDX-License-Identifier: Apache-2.0
"""Many requests through one cache, as agents send them: is each answer that of k = 0?"""

from __future__ import annotations

import json
import logging
import random
import sys
from typing import Any

from tokens.engine import Engine, Setting, WrongCache

BLOCK = 8
AT_ONCE = 32
#: Blocks and tokens a step: a roomy cache, and one that preempts.
CACHES = ((1200, 150), (400, 150))
#: A new conversation begins where a history would no longer fit beside its answer.
LONGEST = 360


def soak(setting: Setting, requests: int) -> dict[str, Any]:
    """Conversations of several turns under eight shared system prompts; stops at the first wrong state or answer."""
    mtp = setting.mtp
    pick = random.Random(mtp)
    engine = Engine(setting)
    systems = [
        [pick.randrange(3) for _ in range(pick.randrange(BLOCK, 12 * BLOCK))]
        for _ in range(8)
    ]
    turns = at_once = ended = 0
    wrong = ""
    open_: list[str] = []
    histories: list[list[int]] = []
    try:
        while len(engine.requests) < requests:
            while (
                len(open_) < AT_ONCE
                and len(engine.requests) < requests
                and pick.random() < 0.9
            ):
                begun, kind = pick.choice(systems), pick.random()
                if histories and kind < 0.7:
                    history = histories.pop(pick.randrange(len(histories)))
                    # The next turn, or the user changes an earlier one.
                    begun = (
                        history
                        if kind < 0.4
                        else history[: pick.randrange(BLOCK, len(history))]
                    )
                    turns += 1
                said = [pick.randrange(3) for _ in range(pick.randrange(1, 6 * BLOCK))]
                open_.append(engine.add(begun + said, pick.randrange(1, 80)))
            if open_ and pick.random() < 0.01:
                engine.abort(pick.choice(open_))
            engine.step(pick.randrange(mtp + 1))
            at_once = max(at_once, len(engine.scheduler.running))
            for name in [name for name in open_ if engine.requests[name].is_finished()]:
                open_.remove(name)
                engine.check_answer(name)
                ended += 1
                history = list(engine.requests[name].all_token_ids)
                if len(history) < LONGEST:
                    histories.append(history)
        engine.finish(mtp // 2)
        ended = requests
    except WrongCache as fault:
        wrong = str(fault)
    return {
        "requests": requests,
        "right": ended,
        "wrong": wrong,
        "turns": turns,
        "preempted": engine.preempted,
        "at once": at_once,
        "hit": engine.hit_tokens,
        "prompts": engine.prompt_tokens,
    }


def judge(mtp: int, requests: int) -> dict[str, Any]:
    """The soak with ``mtp`` drafted tokens: both caches, each with and without scheduling ahead."""
    settings = [
        Setting(mtp, BLOCK, blocks, budget, requests=AT_ONCE, ahead=ahead)
        for ahead in (False, True)
        for blocks, budget in CACHES
    ]
    runs = [
        soak(setting, requests // len(settings))
        for setting in settings
        if setting.served
    ]
    sums = {
        name: sum(run[name] for run in runs)
        for name in ("requests", "right", "turns", "preempted")
    }
    hit = sum(run["hit"] for run in runs) / max(sum(run["prompts"] for run in runs), 1)
    wrong = [run["wrong"] for run in runs if run["wrong"]]
    at_once = max((run["at once"] for run in runs), default=0)
    return {
        **sums,
        "at once": at_once,
        "hit": round(hit, 2),
        "wrong": len(wrong),
        "first": wrong[:1],
    }


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(json.dumps({str(k): judge(k, int(sys.argv[1])) for k in range(1, 6)}))
