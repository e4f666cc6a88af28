# SPDX-License-Identifier: Apache-2.0
"""A prompt is cut at block ends alone.

So a later request resumes from the state that it asks for.
"""

import pytest

from prefix_cache.engine import Engine, Setting


@pytest.mark.parametrize("mtp", range(1, 6))
@pytest.mark.parametrize("ahead", [False, True])
def test_a_cut_prompt_leaves_no_wrong_state(mtp: int, ahead: bool) -> None:
    """Stock: "the state after 8 tokens is one after 5 of them"."""
    engine = Engine(
        Setting(mtp, block_size=8, blocks=100, batched_tokens=17, ahead=ahead)
    )
    engine.add([0] * 12, 4)  # leaves the second prompt five tokens of the first step
    second = engine.add([1] * 14, 12)
    engine.finish()
    engine.add(engine.requests[second].all_token_ids[:20], 4)
    engine.finish()
