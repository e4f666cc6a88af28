# SPDX-License-Identifier: Apache-2.0
"""The V1 runner counts a request decoding without drafts as one that drafted none."""

import contextlib
import inspect
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from v1_runner import Prepared, buffer, runner, scheduled

#: a and b decode, c computes its prompt.
COMPUTED, PROMPT = [12, 12, 4], [8, 8, 8]


@pytest.mark.parametrize(
    "drafts, told", [({"b": [5, 5, 5]}, [0, 3, -1]), ({}, [0, 0, -1])]
)
def test_rows_without_drafts_count(
    drafts: dict[str, list[int]], told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock: -1 for a; nothing is told if no row has drafts."""
    from vllm.v1.worker import gpu_model_runner as module

    computed = np.array(COMPUTED, dtype=np.int32)
    batch = MagicMock(
        num_reqs=3,
        req_ids=["a", "b", "c"],
        prev_req_id_to_index={},
        req_id_to_index={"a": 0, "b": 1, "c": 2},
        num_computed_tokens_cpu=computed,
        num_computed_tokens_cpu_tensor=torch.from_numpy(computed),
        num_prompt_tokens=np.array(PROMPT, dtype=np.int32),
        num_accepted_tokens_cpu=np.ones(8, dtype=np.int32),
        token_ids_cpu=np.zeros((3, 64), dtype=np.int32),
        token_ids_cpu_tensor=torch.zeros((3, 64), dtype=torch.int32),
    )
    prepares = runner(batch, monkeypatch)
    prepares.requests = {name: MagicMock(num_tokens=13) for name in "abc"}
    rows: Any = buffer()
    rows.np.fill(-1)
    rows.copy_to_gpu = MagicMock(side_effect=Prepared)
    prepares.num_decode_draft_tokens = rows
    tokens = {"a": 1, "b": 1 + len(drafts.get("b", ())), "c": 4}
    step = scheduled(tokens, drafts)
    with contextlib.suppress(Prepared):
        module.GPUModelRunner._prepare_inputs(
            prepares, step, np.array(list(tokens.values()), dtype=np.int32)
        )
    assert rows.np[:3].tolist() == told


def test_the_attention_is_told_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock: not in a step in which no request has drafts."""
    from vllm.v1.worker import gpu_model_runner as module

    batch = MagicMock(num_reqs=2, req_ids=["a", "b"])
    executes = runner(batch, monkeypatch)
    executes.execute_model_state = executes._pooled_execute_state = None
    executes.kv_cache_config.kv_cache_groups = []
    executes.num_prompt_logprobs = None
    executes.cascade_attn_enabled = False
    executes.cache_config.mamba_cache_mode = "none"
    takes = inspect.signature(module.GPUModelRunner._build_attention_metadata)
    counted = "max_num_sampled_tokens" in takes.parameters
    executes._prepare_inputs.return_value = (None, None, 1)[: 2 + counted]
    padded = MagicMock(num_tokens=2, num_reqs=2)
    executes._determine_batch_execution_and_padding.return_value = (
        module.CUDAGraphMode.NONE,
        padded,
        False,
        None,
        None,
    )
    executes._get_slot_mappings.return_value = (None, None)
    executes._build_attention_metadata.side_effect = Prepared
    with pytest.raises(Prepared):
        module.GPUModelRunner.execute_model(executes, scheduled({"a": 1, "b": 1}))
    (asked,) = executes._build_attention_metadata.call_args_list
    assert asked.kwargs["use_spec_decode"]
