# SPDX-License-Identifier: Apache-2.0
"""Seeded corpora: outputs with the reading that the model meant.

The cases of ``conformance/cases`` say what the format is; these say how often a
reader gets right what agents do with it.  A corpus is judged by three numbers: how
many outputs were read as they were meant, how many were not, and in how many
something ran that the output only quotes.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import partial

from conformance import case as cases
from conformance.corpora import (
    cuts,
    embeddings,
    fixtures,
    fragments,
    holdout,
    ordinary,
    positions,
    sloppy,
    spelling,
)
from conformance.corpora.case import Case, suite

SUITE_VERSION = 1
"""Raised whenever a verdict can change."""

CORPORA: dict[str, Callable[[], Iterable[Case]]] = {
    "ordinary": ordinary.first,
    "ordinary-more": partial(ordinary.more, spelling.STOCK),
    "ordinary-beyond": partial(ordinary.more, spelling.BEYOND),
    "embeddings": partial(embeddings.plain, embeddings.FIRST),
    "embeddings-others": partial(embeddings.plain, embeddings.OTHERS),
    "embeddings-crossed": embeddings.crossed,
    **{
        f"fragments-{place}": partial(fragments.cases, fragments.FIRST, 9, place)
        for place in fragments.POSITIONS
    },
    **{
        f"fragments-{place}-2": partial(fragments.cases, fragments.SECOND, 8, place)
        for place in fragments.POSITIONS
    },
    "omitted": sloppy.omitted,
    **{f"spelled: {way.name}": partial(sloppy.spelled, way) for way in spelling.ALL},
    "stutter": sloppy.stutter,
    "closers": positions.closers,
    "examples": positions.examples,
    "reasoning": positions.reasoning,
    "prose": positions.prose,
    "cuts": partial(cuts.cut, cuts.SPELLINGS, ended=False),
    "ended": partial(cuts.cut, (spelling.CANONICAL,), ended=True),
    **{f"holdout-{name}": build for name, build in holdout.CORPORA.items()},
}


def load(patterns: Iterable[str], sample: int = 0) -> Iterator[cases.Case]:
    """Cases by name, ``corpora/CORPUS/CASE``, or globs of names.

    Args:
        sample: At most so many of each corpus, always the same ones; 0: all.

    """
    wanted = [p for p in patterns if p.startswith("corpora")]
    every: dict[str, Callable[[], Iterable[Case | cases.Case]]] = {
        **CORPORA,
        "canitoolcall": fixtures.canitoolcall,
    }
    for corpus, build in every.items():
        named = f"corpora/{corpus}"
        if not any(
            p.startswith(f"{named}/") or fnmatch(named, p) or p == "corpora"
            for p in wanted
        ):
            continue
        found = [
            suite(case, corpus) if isinstance(case, Case) else case for case in build()
        ]
        found = [case for case in found if cases.named(case, wanted)]
        if sample and len(found) > sample:
            found = random.Random(corpus).sample(found, sample)
        yield from found
