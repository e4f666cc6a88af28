# SPDX-License-Identifier: Apache-2.0
"""What is measured: cells, which go to the measuring processes as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass

#: The parser alone, and a request from its body to the response's last byte.
PATHS = ("parser", "serving")
#: Tokens of an output.
LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
#: Tokens of a step: no drafts, 3, and 15.
WIDTHS = (1, 4, 16)
#: Outputs above this many tokens are measured at one width only, if it is among those.
LONG, LONG_WIDTH = 16_000, 4
#: Tokens of each of many streams at once, and of many calls together.
STREAM_TOKENS, CALLS_TOKENS = 1_000, 4_000


@dataclass(frozen=True)
class Cell:
    """One workload of one length, in steps of one width, on one path."""

    path: str
    workload: str
    tokens: int
    width: int

    @property
    def family(self) -> tuple[str, str, int]:
        """What cells have in common that differ in length alone."""
        return self.path, self.workload, self.width

    @property
    def patience(self) -> int:
        """How many times ``--cell-seconds`` one pass may take."""
        return 4 if self.workload.startswith("streams") else 1

    def __str__(self) -> str:
        return f"{self.path} {self.workload} {self.tokens} tokens, width {self.width}"


def grid(
    paths: Iterable[str],
    workloads: Iterable[str],
    lengths: Iterable[int],
    widths: Iterable[int],
) -> list[Cell]:
    """Return every combination, the shortest first within a family."""
    found: dict[Cell, None] = {}
    for path in paths:
        for workload in workloads:
            for width in widths:
                for length in sorted(lengths):
                    kind = workload.partition("+")[0]
                    one = {"streams256": STREAM_TOKENS, "calls64": CALLS_TOKENS}
                    tokens = one.get(kind, length)
                    thin = tokens > LONG and LONG_WIDTH in widths
                    if not thin or width == LONG_WIDTH:
                        found[Cell(path, workload, tokens, width)] = None
    return list(found)
