# SPDX-License-Identifier: Apache-2.0
"""Points of tool-eval-bench on real weights, stock beside patched, from the totals of the gpu lane."""

from __future__ import annotations

from patchset.base.release import Release
from patchset.results import lanes, totals
from patchset.results.key import key


def table(found: list[Release]) -> str:
    """One row for each server that was judged: points of those possible at each k; without one, that none was."""
    rows = []
    for weights in sorted(place for place in totals.file("gpu", "").parent.glob("*") if place.is_dir()):
        for release in reversed(found):
            cells = totals.read(f"gpu/{weights.name}", release.name)
            for cell in lanes.CELLS["gpu"]:
                for variant in ("stock", "patched"):
                    points = [
                        _points(release, variant, cells.get(f"{variant} {cell} k{k}")) for k in lanes.MTP
                    ]
                    if set(points) != {lanes.NOT_RUN}:
                        rows.append(
                            f"| {weights.name} | {release.name} {cell} | {variant} | {' | '.join(points)} |"
                        )
    if not rows:
        return f"{lanes.NOT_RUN}\n"
    head = ["weights", "release", "", *(f"k={k}" for k in lanes.MTP)]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows]) + "\n"


def _points(release: Release, variant: str, cell: totals.Cell | None) -> str:
    """A server's points; the scenarios that it failed itself, and that give no points, are named by their number."""
    said = (cell or {}).get("tool_eval")
    if cell is None or said is None:
        return lanes.NOT_RUN
    earned, most = said["points"]
    failed = f" (server failed {len(said['failed_by_server'])})" if said["failed_by_server"] else ""
    mark = "" if cell["key"] == key(release, variant, "gpu") else totals.STALE
    return f"{earned}/{most}{failed}{mark}"
