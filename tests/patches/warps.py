# SPDX-License-Identifier: Apache-2.0
"""Runs the body of a Triton kernel in Python, one warp after the other.

Warps of a program wait for each other at barriers alone, so a kernel without one must
be right in any order of its warps. Triton's interpreter has all threads do each
instruction together, and cannot show it. No Triton is needed: where it has no device,
vLLM leaves a kernel's function as it is.
"""

import ctypes
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch


class Word:
    """What a thread, or each thread of a warp, holds: a number, or an address of
    elements of ``size`` bytes.
    """

    def __init__(self, value: Any, size: int = 0) -> None:
        self.value = np.asarray(value, dtype=np.int64)
        self.size = size

    def to(self, kind: "int | _Pointer") -> "Word":
        """The same bits as another type."""
        return Word(self.value, kind.size if isinstance(kind, _Pointer) else 0)

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __neg__(self) -> "Word":
        return Word(-self.value)


class _Pointer:
    def __init__(self, size: int) -> None:
        self.size = size


def _binary(name: str) -> Callable[[Word, Any], Word]:
    act = getattr(operator, name)

    def run(left: Word, right: Any) -> Word:
        other = right.value if isinstance(right, Word) else right
        return Word(act(left.value, other * (left.size or 1)), left.size)

    return run


def _reflected(name: str) -> Callable[[Word, Any], Word]:
    act = getattr(operator, name)
    return lambda right, left: Word(act(left, right.value))


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Word, f"__{_name}__", _binary(_name))
    setattr(Word, f"__r{_name}__", _reflected(_name))
for _name in ("and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Word, f"__{_name.strip('_')}__", _binary(_name))


class Language:
    """As much of ``triton.language`` as the kernels of recurrent states use."""

    uint8, uint16, uint32, uint64, int32, int64 = 1, 2, 4, 8, 4, 8
    constexpr = int

    def __init__(self, warps: int) -> None:
        self.warps, self.warp, self.program = warps, 0, (0, 0, 0)

    def program_id(self, axis: int) -> Word:
        """Which program of the grid this is."""
        return Word(self.program[axis])

    def arange(self, begin: int, end: int) -> Word:
        """The threads of this warp, each by its element."""
        begin, end = int(begin), int(end)
        share = max((end - begin) // self.warps, 1)
        first = min(begin + self.warp * share, end)
        return Word(np.arange(first, min(first + share, end)))

    @staticmethod
    def pointer_type(size: int) -> _Pointer:
        """An address of elements of that many bytes."""
        return _Pointer(size)

    @staticmethod
    def load(place: Word, mask: Word | None = None, other: int = 0) -> Word:
        """What is there, as a signed number."""
        shape = place.value.shape
        wanted = np.ones(shape, bool) if mask is None else mask.value.astype(bool)
        found = np.full(shape, other, dtype=np.int64)
        for at in np.ndindex(shape):
            if wanted[at]:
                raw = ctypes.string_at(int(place.value[at]), place.size)
                found[at] = int.from_bytes(raw, "little", signed=True)
        return Word(found)

    @staticmethod
    def store(place: Word, held: Any, mask: Word | None = None) -> None:
        """Write it there."""
        shape = place.value.shape
        wanted = np.ones(shape, bool) if mask is None else mask.value.astype(bool)
        values = np.broadcast_to(held.value if isinstance(held, Word) else held, shape)
        for at in np.ndindex(shape):
            if wanted[at]:
                number = int(values[at]) % (1 << 8 * place.size)
                raw = number.to_bytes(place.size, "little")
                ctypes.memmove(int(place.value[at]), raw, place.size)

    @staticmethod
    def cdiv(left: Any, right: Any) -> Any:
        """Divided and rounded up."""
        return (left + right - 1) // right

    @staticmethod
    def minimum(left: Any, right: Any) -> Word:
        """The smaller one."""
        return Word(np.minimum(*(getattr(x, "value", x) for x in (left, right))))

    @staticmethod
    def maximum(left: Any, right: Any) -> Word:
        """The greater one."""
        return Word(np.maximum(*(getattr(x, "value", x) for x in (left, right))))


def word(value: Any) -> Any:
    """An argument as a kernel has it: a tensor is its address."""
    if isinstance(value, torch.Tensor):
        return Word(value.data_ptr(), value.element_size())
    plain = isinstance(value, bool) or not isinstance(value, int)
    return value if plain else Word(value)


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
                        *map(word, given), **{n: word(v) for n, v in named.items()}
                    )

        return run
