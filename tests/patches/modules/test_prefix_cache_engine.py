# SPDX-License-Identifier: Apache-2.0
"""The prefix cache lane's own check finds what is exchanged behind the cache's back."""

import pytest

from prefix_cache.engine import MAMBA, VOCABULARY, Engine, Setting, WrongCache


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    ("store", "told"),
    [("mamba", "the state after"), ("attention", "attention at 0 to 8")],
)
def test_each_past_is_told_from_another(store: str, told: str, ahead: bool) -> None:
    setting = Setting(0, block_size=8, blocks=100, batched_tokens=64, ahead=ahead)
    if not setting.served:
        pytest.skip("the release starts no server with it")
    engine = Engine(setting)
    name = engine.add([1] * 20, 8)
    engine.step(0)
    engine.step(0)
    own = engine.worker[name]
    if store == "mamba":
        engine.mamba[own.blocks[MAMBA][own.column]] = 0
    else:
        engine.attention[own.blocks[0][0]][3] = 0
    with pytest.raises(WrongCache, match=told):
        engine.finish()


def test_another_answer_is_found() -> None:
    engine = Engine(Setting(0, block_size=8, blocks=100, batched_tokens=64))
    name = engine.add([1] * 20, 8)
    while engine.busy:
        engine.step(0)
    engine.check_answer(name)
    tokens = engine.requests[name]._output_token_ids
    tokens[3] = (tokens[3] + 1) % VOCABULARY
    with pytest.raises(WrongCache, match="token 3 is not that of k = 0"):
        engine.check_answer(name)
