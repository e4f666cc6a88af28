# SPDX-License-Identifier: Apache-2.0
"""The V1 runner gives each request its own count of accepted drafts, however early or
late the counts arrive from the GPU.
"""

import inspect
from collections import defaultdict
from types import MethodType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

ROWS = 8


class _Prepared(Exception):
    """The counts are what the model would get."""


def _buffer(dtype: Any = np.int32) -> SimpleNamespace:
    array = np.zeros(64, dtype=dtype)
    held = torch.from_numpy(array)
    return SimpleNamespace(
        np=array, cpu=held, gpu=held.clone(), copy_to_gpu=lambda *_: None
    )


def _state(name: str) -> Any:
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.gpu_input_batch import CachedRequestState

    return CachedRequestState(
        req_id=name,
        prompt_token_ids=[1] * 8,
        mm_features=[],
        sampling_params=SamplingParams(temperature=0),
        generator=None,
        block_ids=([1],),
        num_computed_tokens=8,
        output_token_ids=[1],
    )


def _batch() -> Any:
    from vllm.v1.worker.gpu_input_batch import InputBatch

    words: dict[str, Any] = {
        "max_num_reqs": ROWS,
        "max_model_len": 64,
        "max_num_batched_tokens": 64,
        "device": torch.device("cpu"),
        "pin_memory": False,
        "vocab_size": 10,
        "block_sizes": [16],
        "kernel_block_sizes": [16],
        "max_num_blocks_per_req": [4],
    }
    takes = inspect.signature(InputBatch).parameters
    return InputBatch(**{name: value for name, value in words.items() if name in takes})


@pytest.mark.parametrize("early", [True, False])
def test_each_request_keeps_its_count(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a ends, d takes its row and, as it is a prompt, changes it with c. Stock, early:
    c has d's count.
    """
    from vllm.v1 import utils
    from vllm.v1.worker import block_table, gpu_input_batch
    from vllm.v1.worker import gpu_model_runner as module

    for one in (block_table, gpu_input_batch, utils):
        monkeypatch.setattr(one, "PIN_MEMORY", False, raising=False)
    batch = _batch()
    states = {name: _state(name) for name in "abc"}
    for state in states.values():
        batch.add_request(state)
    batch.refresh_metadata()
    batch.prev_req_id_to_index = {"a": 0, "b": 1, "c": 2}

    def arrive() -> None:
        counts = torch.tensor([4, 3, 2], dtype=torch.int32)
        batch.num_accepted_tokens_cpu_tensor[:3] = counts

    late = iter([] if early else [arrive])
    runner = MagicMock()
    runner.input_batch, runner.requests, runner.uses_mrope = batch, states, False
    runner.num_accepted_tokens_event.synchronize = lambda: next(late, lambda: None)()
    runner.cache_config.mamba_cache_mode = "align"
    runner.use_async_scheduling, runner.is_pooling_model = True, False
    runner.use_async_spec_decode = runner.enable_prompt_embeds = False
    runner.speculative_config.use_ngram_gpu = lambda: False
    runner.arange_np = np.arange(64)
    runner._may_reorder_batch = lambda *_: batch.swap_states(0, 2)
    runner.optimistic_seq_lens_cpu = torch.zeros(64, dtype=torch.int32)
    for name in ("query_pos", "input_ids", "query_start_loc", "num_accepted_tokens"):
        setattr(runner, name, _buffer())
    runner.prev_positions = _buffer(np.int64)
    runner.discard_request_mask = _buffer(np.bool_)
    for name in ("_compute_prev_positions", "_get_cumsum_and_arange"):
        own = getattr(module.GPUModelRunner, name)
        setattr(runner, name, MethodType(own, runner))
    runner.num_accepted_tokens.copy_to_gpu = MagicMock(side_effect=_Prepared)
    monkeypatch.setattr(module, "get_pp_group", lambda: MagicMock(is_last_rank=True))

    new = _state("d")
    output = MagicMock(
        finished_req_ids={"a"},
        num_scheduled_tokens={"b": 1, "c": 1, "d": 8},
        total_num_scheduled_tokens=10,
        scheduled_new_reqs=[
            SimpleNamespace(
                **{n: getattr(new, n) for n in ("req_id", "prompt_token_ids")},
                **{n: getattr(new, n) for n in ("sampling_params", "block_ids")},
                prompt_embeds=None,
                prompt_is_token_ids=None,
                mm_features=[],
                pooling_params=None,
                num_computed_tokens=0,
                lora_request=None,
            )
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=["b", "c"],
            resumed_req_ids=set(),
            num_computed_tokens=[8, 8],
            new_block_ids=[None, None],
            new_token_ids=[],
            all_token_ids={},
            num_output_tokens=[1, 1],
        ),
        scheduled_spec_decode_tokens=defaultdict(list),
        new_block_ids_to_zero=None,
        kv_cache_block_copies=None,
        preempted_req_ids=set(),
    )
    if early:
        arrive()
    module.GPUModelRunner._update_states(runner, output)
    scheduled = [output.num_scheduled_tokens[name] for name in batch.req_ids]
    with pytest.raises(_Prepared):
        module.GPUModelRunner._prepare_inputs(
            runner, output, np.array(scheduled, dtype=np.int32)
        )
    found = dict(zip(batch.req_ids, runner.num_accepted_tokens.np, strict=False))
    assert found == {"b": 3, "c": 2, "d": 1}
