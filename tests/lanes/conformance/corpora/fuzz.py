"""Cuts outputs of the corpora at random: a reading never depends on the cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from conformance.corpora.case import Case
from conformance.corpora.reader import Reader, random_pieces

LONGEST = 4_000
"""Characters of an output that is made of several."""


def _mixed(cases: list[Case], rng: random.Random) -> Case:
    """A case as it is, or one that is spliced from parts of several."""
    case = rng.choice(cases)
    output = case.output
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            other = rng.choice(cases).output
            at, start = rng.randint(0, len(output)), rng.randint(0, len(other))
            output = output[:at] + rng.choice(("", "\n", " ")) + other[start:]
    if rng.random() < 0.2:
        lines = output.split("\n")
        del lines[rng.randrange(len(lines))]
        output = "\n".join(lines)
    return replace(
        case,
        output=output[:LONGEST],
        cut=rng.random() < 0.3,
        in_reasoning=case.in_reasoning or rng.random() < 0.1,
    )


def search(
    reader: Reader, cases: list[Case], runs: int, seed: int
) -> Iterator[tuple[str, Case, list[str], str]]:
    """Runs whose reading depends on the cut, or that raised.

    Yields:
        The run's own seed, the case, its pieces, and what is wrong.

    """
    for number in range(runs):
        key = f"{seed}/{number}"
        rng = random.Random(key)
        case = _mixed(cases, rng)
        pieces = random_pieces(case.output, rng)
        try:
            whole = reader.events(case, [case.output])
            if reader.events(case, pieces) != whole:
                yield key, case, pieces, "another reading"
        except Exception as error:  # the code under test may raise anything
            yield key, case, pieces, f"{type(error).__name__}: {error}"
