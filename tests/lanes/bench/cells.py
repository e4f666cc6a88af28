# SPDX-License-Identifier: Apache-2.0
"""What is measured: cells, which go to the measuring processes as JSON."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

#: The parser alone, and the whole API process, by the surface that is asked.
PATHS = ("parser", "chat", "messages", "responses")
#: What the whole process is measured with.
WHOLE = ("string", "thought+reasoning", "streams64")
#: Tokens of an output.
LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
#: Tokens of a step: no drafts, 3, and 15.
WIDTHS = (1, 4, 16)
#: Outputs above this many tokens are measured at one width only, if it is among those.
LONG, LONG_WIDTH = 16_000, 4
#: Tokens of many calls together.
CALLS_TOKENS = 4_000


@dataclass(frozen=True)
class Cell:
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
    """Return the combinations that are measured, the shortest first in a family."""
    found: dict[Cell, None] = {}
    lengths = sorted(lengths)
    for path, workload, width, length in itertools.product(
        paths, workloads, widths, lengths
    ):
        is_whole, is_many = path != "parser", workload.startswith("streams")
        if is_whole and workload not in WHOLE:
            continue
        tokens = CALLS_TOKENS if workload.startswith("calls64") else length
        if is_many and tokens > LONG and len(lengths) > 1:
            continue
        thin = LONG_WIDTH in widths and (is_whole or tokens > LONG)
        if not thin or width == LONG_WIDTH:
            found[Cell(path, workload, tokens, width)] = None
    return list(found)
