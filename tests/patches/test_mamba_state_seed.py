# SPDX-License-Identifier: Apache-2.0
"""A resumed request's state is looked for by the block of states."""

from types import SimpleNamespace

import pytest

from prefix_cache.runners import state_of_v2


@pytest.mark.parametrize(
    ("computed", "column"), [(0, -1), (1600, 0), (3200, 1), (3300, 2)]
)
def test_a_resumed_request_begins_where_its_state_is(
    computed: int, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock counts in blocks of 4, a drafter's: column 799 for 3 200 tokens."""
    from vllm.v1.worker.gpu.model_states import mamba_hybrid

    monkeypatch.setattr(
        mamba_hybrid.DefaultModelState, "add_request", lambda *_: None, raising=True
    )
    model = state_of_v2(minimum=4, state=1600)
    model.add_request(1, SimpleNamespace(num_computed_tokens=computed))
    assert int(model._mamba_state_idx_gpu[1]) == column
