# SPDX-License-Identifier: Apache-2.0
"""A convolution's state moves to the front of its block, whichever warp is first."""

import inspect

import pytest
import torch

from warps import Launch, in_warps


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("bias", [1, 2])
def test_no_warp_overwrites_what_another_reads(
    order: tuple[int, ...], bias: int
) -> None:
    """Stock: some of the inputs come from later tokens."""
    from vllm.v1.worker import mamba_utils

    width, inputs = 6, 640  # of a token: 1 280 bytes, no multiple of 1 024 or 8 192
    states = torch.arange(2 * width * inputs, dtype=torch.int16)
    states = states.view(2, width, inputs)
    before = states.clone()
    table = torch.tensor([[1, 0]], dtype=torch.int32)
    numbers = {
        "state_block_strides_ptr": width * inputs * 2,
        "state_inner_sizes_ptr": inputs,
        "state_base_addrs_ptr": states.data_ptr(),
        "state_conv_widths_ptr": width,
        "state_elem_sizes_ptr": 2,
        "state_group_indices_ptr": 0,
        "state_dim_row_count_ptr": 0,
        "state_dim_row_stride_ptr": 0,
        "block_table_ptrs_ptr": table.data_ptr(),
    }
    given = {name: torch.tensor([value]) for name, value in numbers.items()}
    given |= {
        "state_idx": 0,
        "bt_row_idx": 0,
        "src_col": 0,
        "dst_col": 0,
        "token_bias": bias,
        "block_table_stride_req": 2,
        "tile_idx": 0,
        "COPY_BLOCK_SIZE": 1024,
        "TEMPORAL_TILES": 1,
        "CONV_STATE_DIM_FIRST": False,
    }
    kernel = mamba_utils._copy_mamba_state_block
    given = {n: given[n] for n in inspect.signature(kernel).parameters if n in given}
    with in_warps(mamba_utils, order) as language:
        Launch(kernel, language, order)[(1,)](**given)
    assert torch.equal(states[1, : width - bias], before[1, bias:])
    assert torch.equal(states[0], before[0])
