# SPDX-License-Identifier: Apache-2.0
"""The linear attention asks for what was accepted, whether a step has drafts or not."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch


class Common(SimpleNamespace):
    """What all attention layers of a step are told."""

    def replace(self, **fields: Any) -> "Common":
        return Common(**{**vars(self), **fields})

    def compute_num_computed_tokens(self) -> torch.Tensor:
        return self.seq_lens - self.query_start_loc.diff()


@pytest.mark.parametrize("drafts", [[0, 3], [0, 0]])
def test_the_attention_asks_for_what_was_accepted(
    drafts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock: not if no row of the step has drafts."""
    from vllm.utils import torch_utils
    from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadataBuilder

    monkeypatch.setattr(torch_utils, "PIN_MEMORY", False)  # there is no GPU

    rows, accepted = len(drafts), torch.tensor([3, 1], dtype=torch.int32)
    builder: Any = object.__new__(GDNAttentionMetadataBuilder)
    builder.vllm_config = SimpleNamespace(
        cache_config=SimpleNamespace(mamba_cache_mode="none")
    )
    builder.kv_cache_spec = SimpleNamespace(block_size=8, num_speculative_blocks=3)
    builder.use_spec_decode, builder.num_spec = True, 3
    builder.use_full_cuda_graph = False
    builder.checkpoint_builder = None
    ends = torch.tensor([0, *(one + 1 for one in drafts)]).cumsum(0).to(torch.int32)
    common = Common(
        query_start_loc=ends,
        query_start_loc_cpu=ends,
        block_table_tensor=torch.arange(8, dtype=torch.int32).view(2, 4),
        seq_lens=torch.full((rows,), 20),
        seq_lens_cpu_upper_bound=torch.full((rows,), 20),
        num_reqs=rows,
        max_query_len=max(drafts) + 1,
        num_actual_tokens=int(ends[-1]),
        is_prefilling=torch.zeros(rows, dtype=torch.bool),
    )
    told = builder.build(
        0,
        common,
        num_accepted_tokens=accepted,
        num_decode_draft_tokens_cpu=torch.tensor(drafts, dtype=torch.int32),
    )
    assert told.num_spec_decodes == rows
    assert told.num_accepted_tokens.tolist() == accepted.tolist()
