# SPDX-License-Identifier: Apache-2.0
"""Cells: the ways in which the server is started, and for which numbers of drafted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchset.errors import UsageError

#: Numbers of drafted tokens in the order in which they are worth running: bursts of some tokens, the longest, none.
TELLING = (3, 5, 1, 0, 2, 4, 7, 15)
#: Requests in flight.
AT_ONCE = 64


@dataclass(frozen=True)
class Cell:
    """One way to start the server; ``mtp`` are the numbers of drafted tokens that it is run with by default."""

    name: str
    arguments: tuple[str, ...]
    mtp: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """One server: ``variant`` is stock or patched."""

    variant: str
    cell: Cell
    mtp: int

    def name(self, release: str) -> str:
        """What its result and logs are called."""
        return f"{release}-{self.variant}-{self.cell.name}-k{self.mtp}"


#: In the order in which they are worth running. CUDA graphs are on in all but ``eager``.
CELLS = {
    cell.name: cell
    for cell in (
        Cell(
            "graphs",
            ("--no-enable-prefix-caching", "--async-scheduling"),
            (0, 1, 2, 3, 4, 5, 7, 15),
        ),
        Cell(
            "prefix",
            ("--enable-prefix-caching", "--async-scheduling"),
            (0, 1, 2, 3, 4, 5, 7, 15),
        ),
        Cell(
            "eager",
            ("--no-enable-prefix-caching", "--async-scheduling", "--enforce-eager"),
            (0, 3),
        ),
        Cell("sync", ("--no-enable-prefix-caching", "--no-async-scheduling"), (0, 3)),
        Cell(
            "prefix-sync", ("--enable-prefix-caching", "--no-async-scheduling"), (0, 3)
        ),
    )
}


def chosen(names: str) -> list[Cell]:
    """Cells by name, ``graphs,eager``.

    Raises:
        UsageError: there is no such cell.
    """
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in CELLS]:
        raise UsageError(
            f"no cell is called {', '.join(unknown)}", f"there are {', '.join(CELLS)}"
        )
    return [CELLS[name] for name in CELLS if name in wanted]


def plan(
    cells: Sequence[Cell],
    variants: Sequence[str],
    ks: Sequence[int],
    *,
    control_first: bool = False,
) -> list[Job]:
    """The servers to run, in the order of what they prove: all of a cell before the next cell, patched before stock.

    ``control_first`` puts k = 0 first, for a model whose answers are held against those of k = 0.
    """
    order = sorted(ks) if control_first else [k for k in TELLING if k in ks]
    return [
        Job(variant, cell, k)
        for cell in cells
        for variant in variants
        for k in order
        if k in cell.mtp
    ]
