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

from conformance.case import Case, named
from conformance.corpora import (
    cuts,
    documents,
    embeddings,
    fixtures,
    fragments,
    frames,
    holdout,
    ordinary,
    positions,
    sloppy,
    spelling,
)

#: Raised whenever a verdict can change.
SUITE_VERSION = 3

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
    "frames": frames.cases,
    "omitted": sloppy.omitted,
    **{f"spelled: {way.name}": partial(sloppy.spelled, way) for way in spelling.ALL},
    "stutter": sloppy.stutter,
    "closers": positions.closers,
    "examples": positions.examples,
    "reasoning": positions.reasoning,
    "prose": positions.prose,
    "cuts": partial(cuts.cut, cuts.SPELLINGS, ended=False),
    "real-documents": documents.cases,
    "real-outputs": fixtures.real_outputs,
    "canitoolcall": fixtures.canitoolcall,
    "ended": partial(cuts.cut, (spelling.CANONICAL,), ended=True),
    **{f"holdout-{name}": build for name, build in holdout.CORPORA.items()},
}


def load(patterns: Iterable[str], sample: int = 0) -> Iterator[Case]:
    """Yield cases by name, ``corpora/CORPUS/CASE``, or globs of names.

    Args:
        sample: At most so many of each corpus, always the same ones; 0: all.

    """
    wanted = [p for p in patterns if p.startswith("corpora")]
    for corpus, build in CORPORA.items():
        folder = f"corpora/{corpus}"
        if not any(
            p == "corpora" or p.startswith(f"{folder}/") or fnmatch(folder, p)
            for p in wanted
        ):
            continue
        found = list(build())
        if sample and len(found) > sample:
            found = random.Random(corpus).sample(found, sample)
        for case in found:
            case = case.model_copy(update={"name": f"{folder}/{case.name}"})
            if named(case, wanted):
                yield case
