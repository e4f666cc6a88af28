# SPDX-License-Identifier: Apache-2.0
"""All of a request's states are saved at a block's end, whichever program is first."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warps import Launch, in_warps


def test_each_state_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock: the first program resets the count, and the second state stays."""
    from vllm.model_executor.layers.mamba import mamba_utils as copies
    from vllm.v1.kv_cache_interface import KVCacheGroupSpec, MambaSpec
    from vllm.v1.worker import mamba_utils

    conv = torch.arange(4 * 4 * 8, dtype=torch.int16).view(4, 4, 8)
    temporal = torch.arange(4 * 4, dtype=torch.int64).view(4, 4)
    before = temporal.clone()
    spec = MambaSpec(
        block_size=4,
        shapes=((4, 8), (4,)),
        dtypes=(torch.int16, torch.int64),
        mamba_cache_mode="align",
        num_speculative_blocks=3,
    )
    groups: Any = SimpleNamespace(kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    context = mamba_utils.MambaSpecDecodeGPUContext.create(
        max_num_reqs=2,
        kv_cache_config=groups,
        num_state_types=2,
        device=torch.device("cpu"),
        make_buffer=lambda *_, **__: None,
    )
    table = torch.tensor([[1, 2, 3, 0], [0, 0, 0, 0]], dtype=torch.int32)
    functions = (copies.get_conv_copy_spec, copies.get_temporal_copy_spec)
    layer = {"layer": SimpleNamespace(kv_cache=[conv, temporal])}
    context.initialize_from_forward_context(groups, layer, functions, [table])
    # Three of three drafts but one were right: five tokens are computed, four end the
    # block, and the state after four lies one slot further.
    accepted = torch.tensor([3, 1], dtype=torch.int32)
    columns = torch.zeros(2, dtype=torch.int32)
    computed = torch.tensor([5, 0], dtype=torch.int32)
    rows = torch.tensor([0], dtype=torch.int32)
    with in_warps(mamba_utils, (0,)) as language:
        kernel = mamba_utils.postprocess_mamba_fused_kernel
        monkeypatch.setattr(
            mamba_utils,
            "postprocess_mamba_fused_kernel",
            Launch(kernel, language, (0,)),
        )
        context.run_fused_postprocess_align(1, accepted, columns, computed, rows)
    assert accepted.tolist() == [1, 1]
    assert torch.equal(temporal[1], before[2])
