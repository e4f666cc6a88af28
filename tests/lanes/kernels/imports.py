# SPDX-License-Identifier: Apache-2.0
"""Imports the thinking budget of the vLLM tree on the path, without a GPU.

Its buffers live in memory that a device can see; plain tensors stand in for them.
"""

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch

#: The file whose kernels are looked at here.
BUDGET = "vllm.v1.worker.gpu.sample.thinking_budget"


class UvaBackedTensor:
    """What a host writes; the device sees it when it is told to."""

    def __init__(
        self, size: Any, dtype: torch.dtype, max_concurrency: Any = None
    ) -> None:
        self.cpu = torch.zeros(size, dtype=dtype, device="cpu")
        self.np = self.cpu.numpy()
        self.copy_to_uva()

    def copy_to_uva(self, n: int | None = None) -> torch.Tensor:
        """Let the device see the first ``n``."""
        self.gpu = self.cpu[:n].to(torch.get_default_device(), copy=True)
        return self.gpu


class StagedWriteTensor:
    """Writes that reach the device together."""

    def __init__(
        self, size: Any, dtype: torch.dtype, device: torch.device, **named: Any
    ) -> None:
        self.gpu = torch.zeros(size, dtype=dtype)
        self._staged: list[tuple[Any, Any]] = []

    def stage_write(self, row: int, start: int, values: Iterable[Any]) -> None:
        """Stage values in a row."""
        written = torch.tensor(list(values), dtype=self.gpu.dtype)
        self._staged.append(((row, slice(start, start + len(written))), written))

    def stage_write_elem(self, row: int, value: Any) -> None:
        """Stage one value."""
        self._staged.append((row, torch.tensor(value, dtype=self.gpu.dtype)))

    def apply_write(self) -> None:
        """Write all."""
        for place, values in self._staged:
            self.gpu[place] = values
        self._staged.clear()


def budget(*, built: bool = False) -> ModuleType:
    """Return the budget's module, its kernels those of the installed Triton; ``built``:
    the tree has a platform.
    """
    import triton
    import triton.language as tl

    if not built:
        from conformance.host.engine import use_cpu_platform

        use_cpu_platform()
    import vllm.triton_utils

    vllm.triton_utils.triton, vllm.triton_utils.tl = triton, tl
    from vllm.utils import torch_utils
    from vllm.v1.worker.gpu import buffer_utils

    torch_utils.PIN_MEMORY = False  # it was asked for before there was a platform
    buffer_utils.UvaBackedTensor = UvaBackedTensor
    buffer_utils.StagedWriteTensor = StagedWriteTensor
    return importlib.import_module(BUDGET)
