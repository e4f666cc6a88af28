# SPDX-License-Identifier: Apache-2.0
"""Takes the samples: for each cell, all subjects in turn (A B C A B C ...), so that a slow minute hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.cells import Cell
from bench.stats import Ratio, ratio, spread
from bench.subjects import Subject, Worker

#: What the first subject is compared with.
MEASURED = "patched"

#: Rounds of a cell that has no time for more.
LEAST_ROUNDS = 5


@dataclass
class Series:
    """The samples of one subject in one cell."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    #: The round of each sample.
    rounds: list[int] = field(default_factory=list)
    #: Set when a pass was given up, or not begun as a shorter one was given up: tokens of that one.
    bounded_at: int | None = None
    error: str | None = None

    @property
    def costs(self) -> list[float]:
        """Microseconds per token of each sample, of a bounded one what it had cost so far: a lower bound."""
        return [
            sample["seconds"] / sample["tokens"] * 1e6
            for sample in self.samples
            if "seconds" in sample
        ]

    def document(self) -> dict[str, Any]:
        """Median and extremes, as JSON."""
        out: dict[str, Any] = {}
        if self.error:
            return {"error": self.error}
        if self.costs:
            out["us_per_token"] = [round(number, 4) for number in spread(self.costs)]
        if self.bounded_at is not None:
            out["bounded_at"] = self.bounded_at
        opened = [s["open_seconds"] for s in self.samples if "open_seconds" in s]
        if opened:
            out["open_us"] = round(spread(opened)[0] * 1e6, 1)
        for key in ("held_bytes", "peak_bytes", "waits", "right"):
            values = [sample[key] for sample in self.samples if key in sample]
            if values:
                out[key] = values[0]
        return out


@dataclass
class Row:
    """What was measured of one cell."""

    cell: Cell
    series: dict[str, Series]

    def ratios(self) -> dict[str, Ratio]:
        """The measured subject over each other; of a bounded other an upper limit."""
        mine = self.series.get(MEASURED)
        if mine is None or not mine.costs or mine.bounded_at is not None:
            return {}
        by_round = dict(zip(mine.rounds, mine.costs, strict=True))
        found = {}
        for name, other in self.series.items():
            if name == MEASURED or not other.costs:
                continue
            if other.bounded_at is not None:
                found[name] = ratio(mine.costs, other.costs * len(mine.costs))
                continue
            pairs = [
                (by_round[number], cost)
                for number, cost in zip(other.rounds, other.costs, strict=True)
                if number in by_round
            ]
            if pairs:
                found[name] = ratio(*zip(*pairs, strict=True))
        return found

    def document(self) -> dict[str, Any]:
        """As JSON."""
        ratios = {
            name: {
                "value": round(found.value, 4),
                "low": round(found.low, 4),
                "high": round(found.high, 4),
                **(
                    {"at_most": True}
                    if self.series[name].bounded_at is not None
                    else {}
                ),
            }
            for name, found in self.ratios().items()
        }
        return {
            **self.cell.document(),
            "subjects": {
                name: series.document() for name, series in self.series.items()
            },
            "ratios": ratios,
        }


def measure(
    cells: Sequence[Cell],
    subjects: Sequence[Subject],
    workers: dict[str, Worker],
    *,
    rounds: int,
    budget: float,
    advance: Callable[[Cell], None] = lambda cell: None,
) -> list[Row]:
    """Sample every cell ``rounds`` times; a pass is given up after ``budget`` seconds, times the cell's patience.

    A cell that has taken longer than that altogether ends after :data:`LEAST_ROUNDS`. What was given up at one length is not
    begun at a greater one. Cells must come in order of length within a family.
    """
    given_up: dict[tuple[Any, ...], int] = {}
    rows = []
    for cell in cells:
        row = Row(
            cell,
            {subject.name: Series() for subject in subjects if subject.takes(cell)},
        )
        once = cell.path not in ("parser", "serving")
        began = time.monotonic()
        for number in range(1 if once else rounds + 1):
            if number > LEAST_ROUNDS and time.monotonic() - began > budget:
                break
            for subject in subjects:
                series = row.series.get(subject.name)
                if series is None or series.error or series.bounded_at is not None:
                    continue
                family = (subject.name, *cell.family)
                if family in given_up:
                    series.bounded_at = given_up[family]
                    continue
                asked = (
                    cell
                    if subject.tokens is None
                    else replace(cell, tokens=subject.tokens)
                )
                sample = workers[subject.worker].ask(
                    asked, subject.parser, budget * cell.patience
                )
                if "error" in sample:
                    series.error = sample["error"]
                elif sample.get("bounded"):
                    given_up[family] = series.bounded_at = cell.tokens
                    series.samples, series.rounds = [sample], [number]
                elif number or once or sample["seconds"] > budget / 4:
                    # The first of a short one only warms up.
                    series.samples.append(sample)
                    series.rounds.append(number)
        rows.append(row)
        advance(cell)
    return rows
