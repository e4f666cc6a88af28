# SPDX-License-Identifier: Apache-2.0
"""Runs the body of a Triton kernel in Python, one warp after the other.

Warps of a program wait for each other at barriers alone, so a kernel without one must
be right in any order of its warps. Triton's interpreter has all threads do each
instruction together, and cannot show it. No Triton is needed: where it has no device,
vLLM leaves a kernel's function as it is.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch


class Pointer(int):
    """The type of an address: the bytes of an element."""


class Word(np.ndarray):  # type: ignore[misc]
    """What a thread, or each thread of a warp, holds: a number, or an address of
    elements of ``width`` bytes.
    """

    width = 0

    def to(self, kind: int) -> "Word":
        """The same bits as another type."""
        return word(self, kind if isinstance(kind, Pointer) else 0)

    def __add__(self, other: Any) -> "Word":
        return word(super().__add__(other * (self.width or 1)), self.width)

    __iadd__ = __add__


def word(value: Any, width: int = 0) -> Word:
    made: Word = np.array(value, dtype=np.int64).view(Word)
    made.width = width
    return made


def wanted(place: Word, mask: Any) -> list[tuple[int, ...]]:
    """The threads that load or store."""
    taken = np.broadcast_to(True if mask is None else mask, place.shape)
    return [at for at in np.ndindex(place.shape) if taken[at]]


class Language:
    """As much of ``triton.language`` as the kernels of recurrent states use."""

    uint8, uint16, uint32, uint64, int32, int64 = 1, 2, 4, 8, 4, 8
    constexpr = int
    pointer_type = Pointer
    minimum, maximum = np.minimum, np.maximum

    def __init__(self, warps: int) -> None:
        self.warps, self.warp, self.program = warps, 0, (0, 0, 0)

    def program_id(self, axis: int) -> Word:
        """Which program of the grid this is."""
        return word(self.program[axis])

    def arange(self, begin: int, end: int) -> Word:
        """The threads of this warp, each by its element."""
        begin, end = int(begin), int(end)
        share = max((end - begin) // self.warps, 1)
        first = min(begin + self.warp * share, end)
        return word(np.arange(first, min(first + share, end)))

    @staticmethod
    def load(place: Word, mask: Word | None = None, other: int = 0) -> Word:
        """What is there, as a signed number."""
        found = np.full(place.shape, other, dtype=np.int64)
        for at in wanted(place, mask):
            raw = ctypes.string_at(int(place[at]), place.width)
            found[at] = int.from_bytes(raw, "little", signed=True)
        return word(found)

    @staticmethod
    def store(place: Word, held: Any, mask: Word | None = None) -> None:
        values = np.broadcast_to(held, place.shape)
        for at in wanted(place, mask):
            number = int(values[at]) % (1 << 8 * place.width)
            raw = number.to_bytes(place.width, "little")
            ctypes.memmove(int(place[at]), raw, place.width)

    @staticmethod
    def cdiv(left: Any, right: Any) -> Any:
        return (left + right - 1) // right


def argument(value: Any) -> Any:
    """An argument as a kernel has it: a tensor is its address."""
    if isinstance(value, torch.Tensor):
        return word(value.data_ptr(), value.element_size())
    plain = isinstance(value, bool) or not isinstance(value, int)
    return value if plain else word(value)


@contextmanager
def in_warps(module: ModuleType, order: Sequence[int]) -> Iterator[Language]:
    """The module's kernels run in Python; the warps of a program, in that order."""
    language = Language(len(order))
    with mock.patch.object(module, "tl", language):
        yield language


class Launch:
    """A kernel that may be launched: all its programs, in the grid's order."""

    def __init__(self, kernel: Any, language: Language, order: Sequence[int]) -> None:
        self.kernel, self.language, self.order = kernel, language, order

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def run(*given: Any, **named: Any) -> None:
            for program in product(*map(range, grid)):
                x, y, z = (*program, 0, 0)[:3]
                self.language.program = (x, y, z)
                for warp in self.order:
                    self.language.warp = warp
                    self.kernel(
                        *map(argument, given),
                        **{name: argument(one) for name, one in named.items()},
                    )

        return run
