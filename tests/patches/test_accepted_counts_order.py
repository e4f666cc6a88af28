# SPDX-License-Identifier: Apache-2.0
"""The V1 runner gives each request its own count of accepted drafts, however early or
late the counts arrive from the GPU.
"""

import inspect
from types import MethodType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from v1_runner import ROWS, Prepared, runner, scheduled


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
    """a ends, and d takes its row; d computes its prompt, so it changes rows with c.
    Stock, early: c has the count of a new request.
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
    prepares = runner(batch, monkeypatch)
    prepares.requests = states
    prepares.reorder_batch_threshold = 1
    prepares.kv_cache_config.kv_cache_groups = ["states"]
    own = module.GPUModelRunner._may_reorder_batch
    prepares._may_reorder_batch = MethodType(own, prepares)
    event = prepares.num_accepted_tokens_event
    event.synchronize = lambda: next(late, lambda: None)()
    prepares.num_accepted_tokens.copy_to_gpu = MagicMock(side_effect=Prepared)

    new = _state("d")
    output = scheduled(
        {"b": 1, "c": 1, "d": 8},
        finished_req_ids={"a"},
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
        new_block_ids_to_zero=None,
        kv_cache_block_copies=None,
        preempted_req_ids=set(),
    )
    if early:
        arrive()
    module.GPUModelRunner._update_states(prepares, output)
    tokens = [output.num_scheduled_tokens[name] for name in batch.req_ids]
    with pytest.raises(Prepared):
        module.GPUModelRunner._prepare_inputs(
            prepares, output, np.array(tokens, dtype=np.int32)
        )
    counts = prepares.num_accepted_tokens.np
    assert batch.req_ids == ["c", "b", "d"]
    found = dict(zip(batch.req_ids, counts, strict=False))
    assert found == {"b": 3, "c": 2, "d": 1}
