# SPDX-License-Identifier: Apache-2.0
"""Points of tool-eval-bench on real weights, stock beside patched, from the totals of the gpu lane."""

from __future__ import annotations

from patchset.release import Release
from patchset.results import lanes, totals


def table(found: list[Release]) -> str:
    """One row for each server that was judged: points of those possible at each k; without one, that none was."""
    rows = []
    for place in lanes.real_weights("gpu"):
        for release in reversed(found):
            for cell, kind, by_k in lanes.servers(place, release):
                points = [_points(by_k.get(k, {})) for k in lanes.MTP]
                if set(points) != {totals.NOT_RUN}:
                    rows.append([place.removeprefix("gpu/"), f"{release.name} {cell}", kind, *points])
    head = "weights | release |  | " + " | ".join(f"k={k}" for k in lanes.MTP)
    return totals.table(head, rows) if rows else f"{totals.NOT_RUN}\n"


def _points(cell: totals.Cell) -> str:
    """A server's points; the scenarios that it failed itself, and that give no points, are named by their number."""
    if not (said := cell.get("tool_eval")):
        return totals.NOT_RUN
    earned, most = said["points"]
    failed = f" (server failed {len(said['failed_by_server'])})" if said["failed_by_server"] else ""
    return f"{earned}/{most}{failed}{cell['mark']}"
