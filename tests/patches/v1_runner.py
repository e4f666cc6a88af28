# SPDX-License-Identifier: Apache-2.0
"""The V1 model runner's preparation of a step, on the CPU and without a model."""

from collections import defaultdict
from types import MethodType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

ROWS = 8


class Prepared(Exception):
    """What the proof asks for is there."""


def buffer(dtype: Any = np.int32) -> SimpleNamespace:
    """A buffer of the runner, whose copy on the GPU is one on the CPU."""
    array = np.zeros(64, dtype=dtype)
    held = torch.from_numpy(array)
    return SimpleNamespace(
        np=array, cpu=held, gpu=held.clone(), copy_to_gpu=lambda *_: None
    )


def runner(batch: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A runner of ``batch`` with MTP; what is not set here is a mock."""
    from vllm.v1.worker import gpu_model_runner as module

    found = MagicMock(
        input_batch=batch,
        uses_mrope=False,
        uses_xdrope_dim=0,
        use_async_scheduling=True,
        is_pooling_model=False,
        use_async_spec_decode=False,
        enable_prompt_embeds=False,
        mamba_prev_last_scheduled_idx=None,
        lora_config=None,
        arange_np=np.arange(64),
        positions=torch.zeros(64, dtype=torch.int64),
        prev_positions=buffer(np.int64),
        discard_request_mask=buffer(np.bool_),
    )
    found.req_indices = found.prev_positions
    found.cache_config.mamba_cache_mode = "align"
    found.speculative_config.use_ngram_gpu = lambda: False
    for name in ("optimistic_seq_lens_cpu", "num_computed_tokens", "seq_lens"):
        setattr(found, name, torch.zeros(64, dtype=torch.int32))
    names = ("query_pos", "input_ids", "query_start_loc", "num_accepted_tokens")
    for name in (*names, "num_decode_draft_tokens", "num_scheduled_tokens"):
        setattr(found, name, buffer())
    for name in ("_compute_prev_positions", "_get_cumsum_and_arange"):
        own = getattr(module.GPUModelRunner, name)
        setattr(found, name, MethodType(own, found))
    monkeypatch.setattr(module, "get_pp_group", lambda: MagicMock(is_last_rank=True))
    return found


def scheduled(
    tokens: dict[str, int], drafts: dict[str, list[int]] | None = None, **more: Any
) -> Any:
    """What the scheduler tells the runner of a step."""
    return MagicMock(
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
        scheduled_spec_decode_tokens=defaultdict(list, drafts or {}),
        **more,
    )
