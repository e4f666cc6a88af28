# SPDX-License-Identifier: Apache-2.0
"""The tokens lane: schedules of a release's KV cache that met a wrong state, and how much came from the cache."""

from __future__ import annotations

from patchset.release import Release
from patchset.results import totals

LANE = "tokens"


def table(found: list[Release]) -> str:
    """Two rows a release that has results, for async scheduling off and on; one column a number of drafted tokens."""
    rows, ks = [], [str(k) for k in range(6)]
    for release in reversed(found):
        run = totals.marked(LANE, release)
        cells = {kind: run[kind] for kind in totals.KINDS if kind in run}
        name = release.name + totals.mark(cells.values())
        for mode in dict.fromkeys(mode for cell in cells.values() for mode in cell["async"]):
            shown = []
            for k in ks:
                both = {kind: cell["async"].get(mode, {}).get(k, {}) for kind, cell in cells.items()}
                unsupported = both.get("stock") and not both["stock"]["runs"]
                shown.append(words(both["stock"]) if unsupported else totals.change(both, words))
            rows.append([name, mode, *shown])
    return totals.table("release | async scheduling" + "".join(f" | k = {k}" for k in ks), rows)


def words(found: totals.Cell) -> str:
    """Wrong schedules of all, and the share of the prompts that was taken from the cache."""
    if not found:
        return totals.NOT_RUN
    return f"{found['wrong']}/{found['runs']}, {found['hit']:.0%}" if found["runs"] else "not supported"


def soak_table(found: list[Release]) -> str:
    """One row a release and kind that was soaked."""
    rows, ks = [], [str(k) for k in range(1, 6)]
    for release in reversed(found):
        cells = totals.marked(LANE, release)
        for kind in totals.KINDS:
            if cell := cells.get(f"{kind} soak"):
                runs = [cell["k"][k] for k in ks]
                hits = [run["hit"] for run in runs]
                row = [f"{release.name} {kind}{cell['mark']}", *(soaked(run) for run in runs)]
                row += [str(sum(run[what] for run in runs)) for what in ("turns", "preempted")]
                row += [str(max(run["at once"] for run in runs)), f"{min(hits):.0%} to {max(hits):.0%}"]
                rows.append(row)
    head = " | ".join(f"k = {k}" for k in ks)
    head = f"release | {head} | later turns | preempted | at once | from the cache"
    return totals.table(head, rows) if rows else f"{totals.NOT_RUN}\n"


def soaked(found: totals.Cell) -> str:
    """Right answers of all requests."""
    return f"{found['right']}/{found['requests']}" if found["requests"] else "not supported"
