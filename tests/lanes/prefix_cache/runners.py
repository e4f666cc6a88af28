# SPDX-License-Identifier: Apache-2.0
"""By which rules a release's two model runners keep recurrent states.

What a rule is was asked of the release's own code, once, because a patch changes it.
"""

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import vllm


def source(name: str) -> str:
    """A file of the release, by its path below ``vllm``; empty if it is not there."""
    path = Path(vllm.__path__[0], name)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


_V1 = source("v1/worker/gpu_model_runner.py")
#: The V2 runner serves hybrid models with cached prefixes.
HAS_V2 = "_mamba_state_idx_gpu" in source("v1/worker/gpu/model_states/mamba_hybrid.py")
#: MTP on hybrid models is served by the V2 runner unless asked otherwise; up to v0.28.0
#: it serves only some architectures by default, of which they are none.
IS_V2 = HAS_V2 and "_is_default_v2_model_runner_model" not in source("config/vllm.py")
#: V1 maps the counts of accepted tokens from the last step's rows to this step's when
#: it has awaited them, although rows that moved since have taken theirs along.
_V1_MAPS = re.search(r"num_accepted_tokens\.np\[:num_reqs\]\[new_mask\] = 1", _V1)
#: V1 marks rows that decode without drafts as rows that have drafted.
V1_COUNTS_ALL = "zero_draft_decode_mask" in _V1
#: The linear attention looks for such rows in a step in which no row has drafts, too.
COUNTS_WITHOUT_DRAFTS = not re.search(
    r"num_decode_draft_tokens_cpu\[[^]]*\]\s*\.sum\(\)\s*\.item\(\)\s*== 0",
    source("v1/attention/backends/gdn_attn.py"),
)


@cache
def seeds_by_the_state(
    minimum: int = 4, state: int = 1600, computed: int = 3200
) -> bool:
    """Whether V2 finds a resumed state by the block of states, and not by the smallest
    block of all groups.
    """
    from vllm.v1.worker.gpu.model_states import mamba_hybrid

    model = state_of_v2(minimum, state)
    with mock.patch.object(mamba_hybrid.DefaultModelState, "add_request"):
        model.add_request(1, SimpleNamespace(num_computed_tokens=computed))
    return int(model._mamba_state_idx_gpu[1]) == (computed - 1) // state


@cache
def reads_accepted_without_drafts() -> bool:
    """Whether V2 takes a decoding row that has no drafts in this step for one that may
    have accepted some in the last.
    """
    return drafts_of_rows([0, 3])[0] == 0


def state_of_v2(minimum: int, state: int, slots: int = 4) -> Any:
    """V2's own keeper of states, on the CPU, without a model."""
    from vllm.v1.worker.gpu.model_states.mamba_hybrid import MambaHybridModelState

    model = object.__new__(MambaHybridModelState)
    model.cache_config = SimpleNamespace(
        block_size=minimum, mamba_block_size=state, mamba_cache_mode="align"
    )
    model.num_accepted_tokens_gpu = torch.ones(slots, dtype=torch.int32)
    model._mamba_state_idx_gpu = torch.zeros(slots, dtype=torch.int32)
    model._align_mode = True
    return model


def drafts_of_rows(drafts: list[int], k: int = 3) -> list[int]:
    """What V2 tells the linear attention of decoding rows with so many drafts in this
    step: how many, or -1 for a row whose accepted tokens of the last step do not count.
    """
    from vllm.v1.worker.gpu.model_states import mamba_hybrid

    model, rows = state_of_v2(8, 8), len(drafts)
    model._align_mode = False
    model.recoverssm = None
    model.vllm_config = SimpleNamespace(num_speculative_tokens=k)
    scheduled = torch.tensor(drafts, dtype=torch.int32).numpy() + 1
    ends = torch.tensor([0, *scheduled]).cumsum(0).to(torch.int32)
    batch = mock.MagicMock(
        num_reqs=rows,
        num_tokens=int(scheduled.sum()),
        num_scheduled_tokens=scheduled,
        num_draft_tokens_per_req=torch.tensor(drafts, dtype=torch.int32).numpy(),
        is_prefilling_np=torch.zeros(rows, dtype=torch.bool).numpy(),
        prefill_runs_as_decode_np=None,
        query_start_loc_np=ends.numpy(),
        seq_lens_cpu_upper_bound=torch.full((rows,), 16),
        max_query_len=None,
        idx_mapping=torch.arange(rows),
    )
    arguments: dict[str, Any] = {}
    none = SimpleNamespace(value=0)
    with mock.patch.object(
        mamba_hybrid,
        "build_attn_metadata",
        side_effect=lambda **all: arguments.update(all),
    ):
        model.prepare_attn(batch, none, (), torch.zeros(1), [], None)
    found = arguments["model_specific_attn_metadata"].num_decode_draft_tokens_cpu
    return [int(number) for number in found[:rows]]


class Rows:
    """V1's batch: which request is in which row, and how many tokens of its last step
    it accepted.

    The counts of a step are copied from the GPU while the next one is prepared: they
    arrive before requests change rows, or after.
    """

    def __init__(self, ahead: bool) -> None:
        self.ahead = ahead
        self.rows: list[str | None] = []
        self.counts = [1] * 256
        self._last: list[tuple[str, int]] = []

    def begin(
        self, scheduled: list[str], prompts: set[str], late: bool
    ) -> dict[str, int]:
        """Take the requests of a step into rows, those that compute ``prompts`` behind
        the others; the accepted count of each.
        """
        # Without scheduling ahead the copy has ended with the step; where it is
        # awaited before rows move, it is never late.
        late = late and self.ahead and bool(_V1_MAPS)
        if not late:
            self._arrive()
        for row, name in enumerate(self.rows):
            if name not in scheduled:
                self.rows[row] = None
        for name in scheduled:
            if name not in self.rows:
                row = self.rows.index(None) if None in self.rows else len(self.rows)
                self.rows[row : row + 1] = [name]
                self.counts[row] = 1
        while None in self.rows:  # the last request moves into the first gap
            if (name := self.rows.pop()) is not None:
                row = self.rows.index(None)
                self.rows[row], self.counts[row] = name, self.counts[len(self.rows)]
        last = len(self.rows) - 1
        for row, name in enumerate(self.rows):
            while last > row and self.rows[last] in prompts:
                last -= 1
            if name in prompts and last > row:
                rows, counts = self.rows, self.counts
                rows[row], rows[last] = rows[last], rows[row]
                counts[row], counts[last] = counts[last], counts[row]
        if late:
            self._arrive()
        if self.ahead and _V1_MAPS and self._last:
            before = {name: row for row, (name, _) in enumerate(self._last)}
            found = [
                self.counts[before[name]] if name in before else 1
                for name in self.rows
                if name
            ]
            self.counts[: len(found)] = found
        return {name: self.counts[row] for row, name in enumerate(self.rows) if name}

    def _arrive(self) -> None:
        self.counts[: len(self._last)] = [count for _, count in self._last]

    def end(self, accepted: dict[str, int]) -> None:
        """The counts of the step, which are on their way."""
        self._last = [(name, accepted[name]) for name in self.rows if name]
