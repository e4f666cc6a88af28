# SPDX-License-Identifier: Apache-2.0
"""Ratios with their spread."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: Resamplings of a bootstrap.
DRAWS = 2_000


@dataclass(frozen=True)
class Ratio:
    """A median ratio, and the interval in which 95 % of its resamplings lie."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Median over the rounds of ``above`` over ``below``.

    Rounds are paired: the two samples of one were taken one after the other, so a second in which the machine is slow is in
    both, and leaves their quotient alone; medians of each side, taken apart, may come from different rounds. The interval is
    a percentile bootstrap over the rounds (Efron and Tibshirani 1993, 13.3).

    Raises:
        ValueError: there is no round, a round has one side only, or a sample is not above 0.
    """
    if not above or not below or min(*above, *below) <= 0:
        raise ValueError("a ratio needs samples above 0 on both sides")
    rounds = [a / b for a, b in zip(above, below, strict=True)]
    rng = random.Random(len(rounds))
    drawn = sorted(
        statistics.median(rng.choices(rounds, k=len(rounds))) for _ in range(DRAWS)
    )
    return Ratio(
        statistics.median(rounds),
        drawn[int(0.025 * DRAWS)],
        drawn[int(0.975 * DRAWS) - 1],
    )


def spread(samples: Sequence[float]) -> tuple[float, float, float]:
    """(median, least, greatest)."""
    return statistics.median(samples), min(samples), max(samples)
