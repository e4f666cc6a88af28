# SPDX-License-Identifier: Apache-2.0
"""Runs a Triton kernel where there is no Triton: the kernel, which is Python, runs as
it stands, with the few words of ``triton.language`` that it uses defined here over
NumPy. What Triton itself makes of it: ``nox -s kernels``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class _Pointer:
    memory: Any
    offset: Any = 0

    def __add__(self, steps: Any) -> _Pointer:
        return _Pointer(self.memory, self.offset + steps)


class _Number(int):
    """An integer with a type cast, as program ids have."""

    def to(self, dtype: Any) -> int:
        return int(self)


def _load(pointer: _Pointer, mask: Any = None, other: Any = None) -> Any:
    if mask is None:
        if not np.all((pointer.offset >= 0) & (pointer.offset < pointer.memory.size)):
            raise IndexError("a load outside its tensor")
        return pointer.memory[pointer.offset]
    inside = np.where(mask, pointer.offset, 0)
    return np.where(mask, pointer.memory[inside], other)


def _store(pointer: _Pointer, value: Any) -> None:
    pointer.memory[pointer.offset] = value


def _words(program: int) -> SimpleNamespace:
    return SimpleNamespace(
        program_id=lambda axis: _Number(program),
        load=_load,
        store=_store,
        range=range,
        static_range=range,
        arange=np.arange,
        where=np.where,
        max=lambda values, axis: np.max(values, axis=axis),
        int64=int,
    )


class _Kernel:
    def __init__(self, module: Any, function: Callable[..., None]) -> None:
        self._module = module
        self._function = function

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        def launch(*arguments: Any, **constants: Any) -> None:
            given = [
                _Pointer(one.numpy().reshape(-1)) if hasattr(one, "numpy") else one
                for one in arguments
            ]
            for program in range(grid[0]):
                self._module.tl = _words(program)
                self._function(*given, **constants)

        return launch


def make_runnable(
    module: Any, kernels: tuple[str, ...], set_attribute: Callable[..., None]
) -> None:
    """Put runnable kernels into a module; ``set_attribute`` is pytest's
    ``monkeypatch.setattr``.

    ``kernels`` are those that are launched; every other function of the module that is
    jitted is called by them.
    """
    plain = {
        name: getattr(one, "fn", one)
        for name, one in vars(module).items()
        if callable(one)
    }
    set_attribute(module, "tl", _words(0))
    for name, function in plain.items():
        set_attribute(
            module, name, _Kernel(module, function) if name in kernels else function
        )
