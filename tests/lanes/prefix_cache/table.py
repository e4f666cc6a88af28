# SPDX-License-Identifier: Apache-2.0
"""Table of the prefix cache lane: wrong schedules, and the share taken from the cache."""

from collections.abc import Iterable

import results
from patchset.release import Release
from prefix_cache import SUITE_VERSION

LANE = "prefix_cache"
_KS = [str(k) for k in range(6)]


def table(found: Iterable[Release]) -> str:
    """Two rows a release, with async scheduling off and on; one column for each k."""
    rows = []
    for release in found:
        run = results.read(LANE, release.name)
        cells = {kind: run[kind] for kind in results.KINDS if kind in run}
        day = results.taken(cells.values(), SUITE_VERSION, release.name)
        for mode in dict.fromkeys(m for cell in cells.values() for m in cell["async"]):
            by_mode = {
                kind: cell["async"].get(mode, {}) for kind, cell in cells.items()
            }
            shown = [_schedules(by_mode, k) for k in _KS]
            rows.append([release.name, mode, *shown, day])
    head = "".join(f" | k = {k}" for k in _KS)
    return results.table(f"release | async scheduling{head} | taken", rows)


def _schedules(by_kind: dict[str, results.Cell], k: str) -> str:
    both = {kind: by_k.get(k, {}) for kind, by_k in by_kind.items()}
    if both.get("stock") and not both["stock"]["runs"]:
        return words(both["stock"])
    return results.change(both, words)


def words(found: results.Cell) -> str:
    """Wrong schedules of all, and the share of the prompts taken from the cache."""
    if not found:
        return results.NOT_RUN
    if not found["runs"]:
        return "not supported"
    return f"{found['wrong']}/{found['runs']}, {found['hit']:.0%}"
