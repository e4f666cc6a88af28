# SPDX-License-Identifier: Apache-2.0
"""What is measured, as plain data: cells go to the workers, and samples come back, one JSON document a line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

#: "once" and "serving-once" feed a stream once, and "idle" does all that stands around it: what instructions are counted with.
Path = Literal[
    "parser",
    "serving",
    "responses",
    "memory",
    "serving-memory",
    "first-delta",
    "once",
    "serving-once",
    "idle",
]

LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
WIDTHS = (1, 2, 4, 6)

#: The paths on which every allocation is traced.
_TRACED = ("memory", "serving-memory")

#: Outputs above this many tokens are the long ones.
LONG = 16_000

#: Tokens of each stream where many are open at once, and of all calls together where there are many.
MANY_TOKENS = 1_000


@dataclass(frozen=True)
class Cell:
    """One workload of one length in steps of one width, through the parser alone or the whole serving path."""

    path: Path
    workload: str
    tokens: int
    width: int

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @property
    def family(self) -> tuple[str, str, int]:
        """Cells that differ in length alone."""
        return self.path, self.workload, self.width

    @property
    def patience(self) -> int:
        """How many times ``--cell-seconds`` one pass may take: many streams at once are one pass, and tracing is slow."""
        return 4 if self.workload.startswith("streams") or self.path in _TRACED else 1

    def __str__(self) -> str:
        return f"{self.path} {self.workload} {self.tokens} tokens, width {self.width}"


def grid(
    paths: tuple[Path, ...],
    workloads: tuple[str, ...],
    lengths: tuple[int, ...],
    widths: tuple[int, ...],
    long_widths: tuple[int, ...] | None = None,
) -> list[Cell]:
    """Every combination, the shortest first within a family; what has one length only comes once.

    ``long_widths``, if given, are the only widths of outputs above :data:`LONG` tokens.
    """
    found: dict[Cell, None] = {}
    for path in paths:
        for workload in workloads:
            for width in widths:
                for tokens in sorted(lengths):
                    cell = _cell(path, workload, tokens, width)
                    thin = (
                        cell
                        and long_widths
                        and cell.tokens > LONG
                        and cell.width not in long_widths
                    )
                    if cell is not None and not thin:
                        found[cell] = None
    return list(found)


def _cell(path: Path, workload: str, tokens: int, width: int) -> Cell | None:
    kind = workload.partition("+")[0]
    if kind not in ("string", "custom") if path == "responses" else kind == "custom":
        return None
    if path in (*_TRACED, "first-delta") and kind in ("streams256", "prose", "calls64"):
        return None
    if path == "first-delta":
        return Cell(path, workload, MANY_TOKENS, width)
    if path in _TRACED:
        # Tracing is slow, and what a stream holds depends on its length alone.
        return Cell(path, workload, min(tokens, 64_000), 4)
    if kind == "streams256":
        return Cell(path, workload, MANY_TOKENS, width)
    if kind == "calls64":
        return Cell(path, workload, 4 * MANY_TOKENS, width)
    return Cell(path, workload, tokens, width)
