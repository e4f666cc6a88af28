# SPDX-License-Identifier: Apache-2.0
"""Table of the prefix cache lane: wrong schedules, and what share the cache gave."""

from collections import Counter
from collections.abc import Iterable

import results
from patchset.release import Release
from prefix_cache import SUITE_VERSION

LANE = "prefix_cache"


def table(releases: Iterable[Release]) -> str:
    """One row a release: its schedules with MTP, and with each kind of drafter."""
    rows = []
    for release, cells in results.asked(LANE, releases):
        day = results.taken(cells.values(), SUITE_VERSION, release.name)
        shown = [
            results.change(
                {kind: total(cell, own) for kind, cell in cells.items()}, words
            )
            for own in (False, True)
        ]
        session = results.change(cells, _turns)
        rows.append([release.name, *shown, session, day])
    head = "release | MTP or no drafts | drafters | 30 turns, k = 3"
    return results.dated(head, rows)


def total(cell: results.Cell, drafter: bool) -> results.Cell:
    """The sum of all schedules, of those with a drafter or of the others."""
    sums: Counter[str] = Counter()
    for shape, modes in cell["shapes"].items():
        if shape.startswith("drafter") == drafter:
            for by_k in modes.values():
                for row in by_k.values():
                    sums.update(
                        {n: row.get(n, 0) for n in ("runs", "wrong", "stopped")}
                    )
    return dict(sums)


def words(row: results.Cell) -> str:
    """Wrong schedules of all; those that vLLM itself ended are named."""
    if not row["runs"]:
        return "not supported"
    stopped = f", {row['stopped']} stopped" if row.get("stopped") else ""
    share = f", {row['hit']:.0%}" if "hit" in row else ""
    return f"{row['wrong']}/{row['runs']}{share}{stopped}"


def _turns(cell: results.Cell) -> str:
    share = cell["turns"]["3"]
    return "wrong" if share is None else f"{share:.0%}"
