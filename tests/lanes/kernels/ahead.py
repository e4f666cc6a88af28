# SPDX-License-Identifier: Apache-2.0
"""Compiles a module's kernels ahead of time, for accelerators that are not there."""

import functools
import itertools
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

from kernels.batches import MARKERS, Batches, Markers, Request

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
