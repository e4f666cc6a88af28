# SPDX-License-Identifier: Apache-2.0
"""A cached prefix is no longer in states than in attention."""

import pytest

from prefix_cache.engine import ATTENTION, Engine, Setting


@pytest.mark.parametrize("shared", [20, 24, 30])
def test_a_prefix_is_as_long_as_attention_has_it(shared: int) -> None:
    """Stock: a prefix of one block more than attention has."""
    setting = Setting(3, block_size=8, blocks=100, batched_tokens=64)
    engine = Engine(setting)
    first = engine.add([0, 1, 2, 2] * 7, 12)
    engine.finish()
    name = engine.add(engine.requests[first].all_token_ids[:shared], 1)
    manager = engine.scheduler.kv_cache_manager
    found, hit, *_ = manager.get_computed_blocks(engine.requests[name])
    assert len(found.blocks[ATTENTION]) == hit // setting.block_size
