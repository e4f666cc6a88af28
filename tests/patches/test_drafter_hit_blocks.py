# SPDX-License-Identifier: Apache-2.0
"""A cached prefix is as long in a drafter's blocks as in all others."""

import pytest

from prefix_cache.engine import DRAFTER, Engine, Setting


@pytest.mark.parametrize("shared", [27, 33, 39])
def test_a_drafter_has_no_blocks_behind_the_prefix(shared: int) -> None:
    """Stock: a block or two beside a prefix of no token."""
    setting = Setting(3, 12, 200, batched_tokens=64, drafter=18, v2=False)
    engine = Engine(setting)
    text = [0, 1, 2, 2] * 10
    engine.add(text, 1)
    engine.finish()
    name = engine.add([*text[:shared], (text[shared] + 1) % 3, 0, 0], 1)
    manager = engine.scheduler.kv_cache_manager
    found, hit, *_ = manager.get_computed_blocks(engine.requests[name])
    assert len(found.blocks[DRAFTER]) == -(-hit // setting.drafter)
