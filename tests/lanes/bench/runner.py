# SPDX-License-Identifier: Apache-2.0
"""Takes the samples: of each cell, all subjects in turn (A B C A B C …)."""

import contextlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.cells import LENGTHS, Cell
from conformance.lines import Standby, tree_environment
from patchset.errors import PatchsetError

#: The subject whose cost is put over the others', and the same one at ``SHORT_TOKENS``.
MEASURED, SHORT, SHORT_TOKENS = "patched", "short", 4_000
#: Rounds of a cell that has no time for more.
LEAST_ROUNDS = 5
#: Resamplings of a bootstrap.
_DRAWS = 2_000


class Worker:
    """A process that measures one tree, started when it is first asked."""

    def __init__(self, tree: Path, log: Path) -> None:
        self._tree, self._log = tree, log
        log.unlink(missing_ok=True)
        command = (sys.executable, "-m", "bench.worker")
        self.child = Standby(command, tree_environment(tree, PYTHONHASHSEED="0"), log)

    def ask(self, cell: Cell, budget: float) -> Any:
        """Return one sample.

        Raises:
            PatchsetError: the process died, or took far longer than ``budget`` seconds.
        """
        # Besides the pass: importing vLLM, cutting the workload into tokens.
        limit = 6 * budget + 300
        if sample := self.child.ask({"cell": vars(cell), "budget": budget}, limit):
            return sample
        raise PatchsetError(
            f"{cell}: the process that measures {self._tree} died or hung",
            f"{self._log} says why",
        )


@contextlib.contextmanager
def workers(trees: dict[str, Path], logs: Path) -> Iterator[dict[str, Worker]]:
    """Yield one process a tree, all on one processor: only one measures at a time.

    On two, other work on either would slow one side of a ratio alone.
    """
    made = {name: Worker(tree, logs / f"{name}.log") for name, tree in trees.items()}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})  # the first one serves most interrupts
    try:
        yield made
    finally:
        os.sched_setaffinity(0, before)
        for worker in made.values():
            worker.child.end()


@dataclass
class Series:
    samples: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: Tokens of the output at which a pass was given up.
    bounded_at: int | None = None

    @property
    def costs(self) -> dict[int, float]:
        """Microseconds a token by round; of a bounded one a lower bound."""
        return {
            number: sample["seconds"] / sample["tokens"] * 1e6
            for number, sample in self.samples.items()
        }

    def document(self) -> dict[str, Any]:
        """Return median and extremes, and the greatest memory, as JSON."""
        out: dict[str, Any] = {}
        if memory := [one["mib"] for one in self.samples.values() if "mib" in one]:
            out["mib"] = round(max(memory))
        if costs := self.costs.values():
            shown = (statistics.median(costs), min(costs), max(costs))
            out["us_per_token"] = [round(cost, 4) for cost in shown]
        if self.bounded_at is not None:
            out["bounded_at"] = self.bounded_at
        return out


def document(cell: Cell, series: dict[str, Series]) -> dict[str, Any]:
    mine, ratios = series[MEASURED], {}
    for name, other in series.items():
        if name == MEASURED or mine.bounded_at or not other.samples:
            continue
        below, limit = other.costs, {}
        if other.bounded_at is not None:
            below, limit = dict.fromkeys(mine.costs, *below.values()), {"at_most": True}
        pairs = [(cost, below[at]) for at, cost in mine.costs.items() if at in below]
        found = zip(("value", "low", "high"), ratio(pairs), strict=True)
        ratios[name] = {name: round(x, 4) for name, x in found} | limit
    subjects = {name: one.document() for name, one in series.items()}
    return {**vars(cell), "subjects": subjects, "ratios": ratios}


def ratio(rounds: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return median quotient of pairs, and the interval of 95 % of its resamplings.

    The samples of a pair were taken one after the other, so a second in which the
    machine is slow is in both. The interval is a percentile bootstrap over the rounds
    (Efron and Tibshirani 1993, 13.3).
    """
    found = [above / below for above, below in rounds]
    rng = random.Random(len(found))
    drawn = sorted(
        statistics.median(rng.choices(found, k=len(found))) for _ in range(_DRAWS)
    )
    low, high = drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS) - 1]
    return statistics.median(found), low, high


def measure(
    cells: Sequence[Cell],
    there: dict[str, Worker],
    *,
    rounds: int,
    budget: float,
    advance: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Sample every cell ``rounds`` times; the cells of a family by length.

    A pass is given up after ``budget`` seconds, and not begun at a greater length. A
    cell that takes longer than that ends after ``LEAST_ROUNDS``.
    """
    given_up: dict[tuple[Any, ...], int] = {}
    found = []
    for cell in cells:
        asked = {name: (worker, cell) for name, worker in there.items()}
        if cell.tokens == LENGTHS[-1]:
            asked[SHORT] = there[MEASURED], replace(cell, tokens=SHORT_TOKENS)
        row = {
            name: Series(bounded_at=given_up.get((name, *cell.family)))
            for name in asked
        }
        began = time.monotonic()
        for number in range(rounds + 1):
            if number > LEAST_ROUNDS and time.monotonic() - began > budget:
                break
            for name, (worker, what) in asked.items():
                if row[name].bounded_at is not None:
                    continue
                sample = worker.ask(what, budget * cell.patience)
                if sample.get("bounded"):
                    given_up[(name, *cell.family)] = cell.tokens
                    row[name] = Series({number: sample}, cell.tokens)
                elif number or sample["seconds"] > budget / 4:
                    # The first of a short one only warms up.
                    row[name].samples[number] = sample
        found.append(document(cell, row))
        advance(1)
    return found
