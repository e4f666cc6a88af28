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
    """A ratio of medians, and the interval in which 95 % of its resamplings lie."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Median of ``above`` over median of ``below``.

    Rounds are paired: the two samples of one were taken one after the other, so both are resampled together
    (percentile bootstrap, Efron and Tibshirani 1993, 13.3). Samples without a partner are left out of the spread.

    Raises:
        ValueError: a side has no sample, or a sample that is not above 0.
    """
    if not above or not below or min(*above, *below) <= 0:
        raise ValueError("a ratio needs samples above 0 on both sides")
    rounds = list(zip(above, below, strict=False))
    rng = random.Random(len(rounds))
    drawn = []
    for _ in range(DRAWS):
        some = rng.choices(rounds, k=len(rounds))
        drawn.append(statistics.median(a for a, _ in some) / statistics.median(b for _, b in some))
    drawn.sort()
    value = statistics.median(above) / statistics.median(below)
    return Ratio(value, drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1])


def spread(samples: Sequence[float]) -> tuple[float, float, float]:
    """(median, least, greatest)."""
    return statistics.median(samples), min(samples), max(samples)
