# SPDX-License-Identifier: Apache-2.0
"""What a release's cache hands out is the request's own past: one schedule that was wrong, and any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tokens.engine import VOCABULARY, Engine, Setting, WrongCache
from tokens.soak import judge

TREE = Path(os.environ.get("VLLM_TREE", "v0/stock"))
#: Where a prompt may be cut within a block although more of it follows (mended upstream by #51113, and by our patch).
CUTS_WITHIN_BLOCKS = TREE.name == "stock" and tuple(
    map(int, TREE.parent.name.removeprefix("v").split("."))
) < (0, 27)


@pytest.mark.parametrize("mtp", range(6))
@pytest.mark.parametrize("ahead", [False, True])
def test_a_cut_prompt_leaves_no_wrong_state(mtp: int, ahead: bool) -> None:
    """The first prompt leaves the second one five tokens of the step; a third one begins as the second did."""
    engine = Engine(
        Setting(mtp, block_size=8, blocks=100, batched_tokens=17, ahead=ahead)
    )
    engine.add([0] * 12, 4)
    second = engine.add([1] * 14, 12)
    engine.finish()
    engine.add(engine.requests[second].all_token_ids[:20], 4)
    if CUTS_WITHIN_BLOCKS and mtp:
        with pytest.raises(
            WrongCache, match="the state after 8 tokens is one after 5 of them"
        ):
            engine.finish()
    else:
        engine.finish()


@pytest.mark.parametrize("ahead", [False, True])
def test_each_past_is_told_from_another(ahead: bool) -> None:
    """The check itself: a state and a key that were exchanged behind the cache's back are found."""
    for store in ("mamba", "attention"):
        engine = Engine(
            Setting(0, block_size=8, blocks=100, batched_tokens=64, ahead=ahead)
        )
        name = engine.add([1] * 20, 8)
        engine.step(0)
        engine.step(0)
        own = engine.worker[name]
        if store == "mamba":
            engine.mamba[own.state or 0] = 0
        else:
            engine.attention[own.blocks[0][0]][3] = 0
        with pytest.raises(
            WrongCache,
            match="the state after" if store == "mamba" else "attention at 0 to 8",
        ):
            engine.finish()


class Schedules(RuleBasedStateMachine):
    """Requests come, share what went before, run, leave; the engine compares at every step."""

    @initialize(
        mtp=st.integers(0, 5),
        ahead=st.booleans(),
        blocks=st.sampled_from([40, 100]),
        budget=st.integers(17, 40),
    )
    def start(self, mtp: int, ahead: bool, blocks: int, budget: int) -> None:
        if CUTS_WITHIN_BLOCKS and mtp:
            budget = 512  # all prompts whole: the known fault is the test above
            blocks = 200
        self.engine = Engine(Setting(mtp, 8, blocks, budget, ahead=ahead))

    @rule(
        like=st.integers(0, 20),
        cut=st.integers(1, 60),
        more=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20),
        length=st.integers(1, 24),
    )
    def send(self, like: int, cut: int, more: list[int], length: int) -> None:
        known = list(self.engine.requests.values())
        begun = list(known[like % len(known)].all_token_ids)[:cut] if known else []
        self.engine.add(begun + more, length)

    @rule(accepted=st.integers(0, 5), steps=st.integers(1, 6))
    def run(self, accepted: int, steps: int) -> None:
        for _ in range(steps):
            self.engine.step(accepted)

    @precondition(lambda self: self.engine.worker)
    @rule(which=st.integers(0, 20))
    def leave(self, which: int) -> None:
        running = sorted(self.engine.worker)
        self.engine.abort(running[which % len(running)])

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.finish()


def test_any_schedule() -> None:
    """Hypothesis looks for a schedule that is wrong."""
    run_state_machine_as_test(
        Schedules,
        settings=settings(
            max_examples=60, stateful_step_count=25, deadline=None, derandomize=True
        ),
    )


def test_a_soak_finds_the_known_fault() -> None:
    """A part of what ``nox -s tokens -- RELEASE --soak`` sends."""
    found = judge(5, 400)
    if found["requests"]:
        assert bool(found["wrong"]) == CUTS_WITHIN_BLOCKS, found["first"]


def test_another_answer_is_found() -> None:
    """The check of answers: a token that the model does not say."""
    engine = Engine(Setting(0, block_size=8, blocks=100, batched_tokens=64))
    name = engine.add([1] * 20, 8)
    while engine.busy:
        engine.step(0)
    engine.check_answer(name)
    tokens = engine.requests[name]._output_token_ids
    tokens[3] = (tokens[3] + 1) % VOCABULARY
    with pytest.raises(WrongCache, match="token 3 is not that of k = 0"):
        engine.check_answer(name)
