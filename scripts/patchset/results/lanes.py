# SPDX-License-Identifier: Apache-2.0
"""The lanes that ask a real server: right answers of all, for each number of drafted tokens, from their totals."""

from __future__ import annotations

from typing import Any

from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

#: Releases that each lane is for.
RELEASES = {"cpu": ("v0.32.0",), "gpu": ("v0.33.0", "v0.26.0", "v0.23.0")}
MTP = (0, 1, 2, 3, 4, 5, 7, 15)
#: Ways in which a lane starts its servers, and the numbers of drafted tokens of each (tests/gpu/cells.py).
CELLS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {"": MTP},
    "gpu": {"graphs": MTP, "prefix": MTP, "eager": (0, 3), "sync": (0, 3), "prefix-sync": (0, 3)},
}
NOT_RUN = "*not run*"
NO_CELL = "–"


def _cells(lane: str, weights: str, release: Release, variant: str, cell: str) -> list[str]:
    found = totals.read(f"{lane}/{weights}" if weights else lane, release.name)
    wanted = key(release, variant, lane)
    cells, soak = [], NOT_RUN
    for mtp in MTP:
        one = found.get(" ".join(word for word in (variant, cell, f"k{mtp}") if word))
        if mtp not in CELLS[lane][cell]:
            cells.append(NO_CELL)
        elif one is None:
            cells.append(NOT_RUN)
        else:
            mark = "" if one["key"] == wanted else totals.STALE
            if one["soak"]:
                soak = f"{one['soak'][0]}/{one['soak'][1]}{mark}"
            accepted = f" ({one['acceptance']:.0%})" if mtp else ""
            cells.append(f"{one['right']}/{one['requests']}{accepted}{mark}")
    return [*cells, soak]


def cell_of(result: dict[str, Any]) -> tuple[str, totals.Cell]:
    """The totals' cell of one server that a lane judged, and its name; the soak is counted for itself."""
    soak = result["by_check"].get("soak")
    words = (result["variant"], result.get("cell", ""), f"k{result['mtp']}")
    real = {"tool_eval": result["tool_eval"]} if result.get("tool_eval") else {}
    return " ".join(word for word in words if word), {
        "key": result["key"],
        "right": result["right"] - (soak["right"] if soak else 0),
        "requests": result["requests"] - (soak["requests"] if soak else 0),
        "acceptance": result["acceptance"],
        "soak": [soak["right"], soak["requests"]] if soak else None,
        "wheel": result["wheel"],
        "finished": result.get("finished"),
        **real,
    }


def table(found: list[Release]) -> str:
    """Right of all requests at k = 0..5, 7 and 15 (share of accepted drafts), and of the soak."""
    head = ["lane", "release", "", *(f"k={mtp}" for mtp in MTP), "soak"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    by_name = {release.name: release for release in found}
    for lane, names in RELEASES.items():
        for release in (by_name[name] for name in names if name in by_name):
            rows += _rows(lane, release, "")
        # Real weights have a folder each; only what was run with them is shown.
        folder = totals.file(lane, "").parent
        for weights in sorted(place for place in folder.glob("*") if place.is_dir()):
            for release in reversed(found):
                if (weights / f"{release.name}.json").is_file():
                    rows += _rows(lane, release, weights.name)
    return "\n".join(rows) + "\n"


def _rows(lane: str, release: Release, weights: str) -> list[str]:
    rows = []
    for cell in CELLS[lane]:
        for variant in ("stock", "patched"):
            found = _cells(lane, weights, release, variant, cell)
            if weights and set(found) <= {NOT_RUN, NO_CELL}:
                continue
            where = [" ".join(word for word in (lane, cell, weights) if word), release.name, variant]
            rows.append(f"| {' | '.join([*where, *found])} |")
    return rows
