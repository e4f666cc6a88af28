# SPDX-License-Identifier: Apache-2.0
"""A prompt is cut at the blocks of the states, whatever blocks a drafter has.

So a later request resumes from the state that it asks for.
"""

import pytest

from prefix_cache.engine import Engine, Setting


@pytest.mark.parametrize("mtp", [1, 3, 7])
@pytest.mark.parametrize("drafter", [4, 5])
def test_a_prompt_beside_a_drafter_leaves_no_wrong_state(
    mtp: int, drafter: int
) -> None:
    """Stock: "the state after 12 tokens is one after 8 of them"."""
    # By V1's rules, because a state that is looked for in a wrong place is another
    # patch's (mamba-state-seed).
    setting = Setting(mtp, 12, 200, batched_tokens=20, drafter=drafter, v2=False)
    engine = Engine(setting)
    for first in (7, 8, 9, 10):  # leaves the next prompt 10 to 13 tokens of the step
        engine.add([first % 3] * first, 1)
        text = [0, 1, 2, first % 3] * 10
        engine.add(text[:30], 1)
        engine.finish()
        for shared in (13, 17, 25, 29):
            engine.add([*text[:shared], (text[shared] + 1) % 3, *text[:4]], 1)
            engine.finish()
