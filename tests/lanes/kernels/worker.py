# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels.worker``: the kernels of the tree on the path, compiled or run.

Prints what was found as JSON. To run them ``TRITON_INTERPRET=1`` must be set, or a
device named.
"""

import contextlib
import functools
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

from kernels.batches import MARKERS, Batches, Markers, Request

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
        written = torch.tensor(list(values), dtype=self.gpu.dtype)
        self._staged.append(((row, slice(start, start + len(written))), written))

    def stage_write_elem(self, row: int, value: Any) -> None:
        self._staged.append((row, torch.tensor(value, dtype=self.gpu.dtype)))

    def apply_write(self) -> None:
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


#: What vLLM's wheels for CUDA and ROCm are run on: backend, architecture, threads of a
#: warp.
TARGETS: dict[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32),
    "sm_89": ("cuda", 89, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "sm_120": ("cuda", 120, 32),
    "gfx942": ("hip", "gfx942", 64),
}

Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]


def launches(
    module: ModuleType, patched: bool, index: torch.dtype, markers: Markers
) -> list[Launch]:
    """Return the kernels that one step of the sampler launches, with their arguments;
    nothing runs.
    """
    from triton import JITFunction

    kernels = {
        name: function
        for name, function in vars(module).items()
        if isinstance(function, JITFunction)
    }
    batch = Batches(module, patched, 0, index, markers)
    with mock.patch.multiple(module, **dict.fromkeys(kernels, mock.DEFAULT)) as stood:
        batch.add(0, Request([], 3, prompt=0, before_answer=True, tools=True))
        batch.state.apply_staged_writes()
        batch.prepared(torch.zeros((2, 128)), [0], [0, 0], [0, 1], [10, 11])()
    return [
        (kernels[name], launch.args, launch.kwargs)
        for name, recorder in stood.items()
        for launch in recorder.__getitem__.return_value.call_args_list
    ]


def compile_all(
    module: ModuleType,
    patched: bool,
    targets: dict[str, tuple[str, int | str, int]],
    kinds: tuple[tuple[torch.dtype, Markers], ...] = (
        (torch.int64, MARKERS[0]),
        (torch.int32, MARKERS[1]),
    ),
) -> dict[str, int]:
    """Compile every kernel for every target; returns the size of the machine code by
    "kernel target index".

    Raises:
        AssertionError: Triton refuses one; the text says which and why.
    """
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    sizes = {}
    for (name, words), (index, markers) in itertools.product(targets.items(), kinds):
        machine = SimpleNamespace(
            get_current_target=functools.partial(GPUTarget, *words),
            get_current_device=functools.partial(str, name),
            get_current_stream=lambda device: None,
        )
        driver.set_active(machine)
        for kernel, given, named in launches(module, patched, index, markers):
            variant = f"{kernel.__name__} {name} {str(index).removeprefix('torch.')}"
            try:
                made = kernel.warmup(*given, grid=(1,), **named)
            except Exception as error:
                raise AssertionError(
                    f"{variant}: {type(error).__name__}: {str(error)[:600]}"
                ) from error
            code = made.asm.get("cubin") or made.asm.get("hsaco")
            if not code:
                raise AssertionError(f"{variant}: no machine code")
            sizes[variant] = len(code)
    return sizes


#: Runs of random batches, and the steps of each.
_SEEDS, _STEPS = 12, 10


def run(module: ModuleType, patched: bool) -> int:
    rows = 0
    for seed in range(_SEEDS):
        index = (torch.int64, torch.int32)[seed % 2]
        markers = MARKERS[seed % len(MARKERS)]
        rows += Batches(module, patched, seed, index, markers).steps(_STEPS)
    return rows


def main(kind: str, device: str = "") -> None:
    """Look at the kernels of a ``stock`` or ``patched`` tree.

    With a ``device``, as in a receipt, the tree has a build, and nothing is compiled
    ahead. Interpreted, stock must be wrong by what is right of the patched tree.
    """
    begun = time.monotonic()
    if device:
        torch.set_default_device(device)
    out, patched = os.fdopen(os.dup(1), "w"), kind == "patched"
    os.dup2(2, 1)
    module = budget(built=bool(device))
    outcomes: dict[str, Any] = {}
    interpreted = bool(os.environ.get("TRITON_INTERPRET"))
    try:
        if interpreted or device:
            outcomes["rows"] = run(module, patched)
        else:
            outcomes["sizes"] = compile_all(module, patched, TARGETS)
    except AssertionError as error:
        outcomes["wrong"] = str(error)
    if kind == "stock" and interpreted and not device:
        with contextlib.suppress(AssertionError):
            run(module, True)
            outcomes["wrong"] = "the batches do not tell stock from the series"
    outcomes["seconds"] = round(time.monotonic() - begun, 1)
    json.dump(outcomes, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
