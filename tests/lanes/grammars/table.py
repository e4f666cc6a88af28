# SPDX-License-Identifier: Apache-2.0
"""Table of what a release's grammars admit, and of what is read of it."""

from collections.abc import Iterable
from functools import partial

import results
from grammars import LANE, SUITE_VERSION
from patchset.release import Release

#: Columns, each a count of all.
COUNTS = {
    "outputs admitted": ("admitted", "outputs"),
    "ran or cut at a forced end": ("ran or cut", "quoting"),
    "arguments that are valid": ("valid", "walks"),
}


def table(releases: Iterable[Release]) -> str:
    """Return one row a release, stock → patched."""
    rows = []
    for release, cells in results.asked(LANE, releases):
        counts = [
            results.change(cells, partial(_share, *each)) for each in COUNTS.values()
        ]
        cost = results.change(cells, lambda cell: f"{cell['most ms a token']:.2g}")
        day = results.taken(cells.values(), SUITE_VERSION, release.name)
        rows.append([release.name, *counts, cost, day])
    head = ["release", *COUNTS, "most ms of a token's mask"]
    return results.dated(" | ".join(head), rows)


def _share(name: str, of: str, cell: results.Cell) -> str:
    return f"{cell[name]}/{cell[of]}"
