# SPDX-License-Identifier: Apache-2.0
"""The lanes that ask a real server: right answers of all, for each number of drafted tokens, from their totals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchset.release import Release
from patchset.results import totals

#: Releases that each lane is for.
RELEASES = {"cpu": ("v0.32.0",), "gpu": ("v0.33.0", "v0.26.0", "v0.23.0")}
MTP = (0, 1, 2, 3, 4, 5, 7, 15)
#: Ways in which a lane starts its servers, and the numbers of drafted tokens of each (tests/lanes/gpu/cells.py).
CELLS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {"": MTP},
    "gpu": {"graphs": MTP, "prefix": MTP, "eager": (0, 3), "sync": (0, 3), "prefix-sync": (0, 3)},
}


def _name(kind: str, cell: str, mtp: int) -> str:
    return " ".join(word for word in (kind, cell, f"k{mtp}") if word)


def cell_of(result: dict[str, Any]) -> tuple[str, totals.Cell]:
    """The totals' cell of one server that a lane judged, and its name; the soak is counted for itself."""
    soak = result["by_check"].get("soak")
    real = {"tool_eval": result["tool_eval"]} if result.get("tool_eval") else {}
    return _name(result["variant"], result.get("cell", ""), result["mtp"]), {
        "key": result["key"],
        "right": result["right"] - (soak["right"] if soak else 0),
        "requests": result["requests"] - (soak["requests"] if soak else 0),
        "acceptance": result["acceptance"],
        "soak": [soak["right"], soak["requests"]] if soak else None,
        "wheel": result["wheel"],
        "finished": result.get("finished"),
        **real,
    }


def real_weights(lane: str) -> list[str]:
    """The folders with totals of real weights, one for each, named as ``totals.read`` takes them."""
    folder = totals.file(lane, "").parent
    return [f"{lane}/{place.name}" for place in sorted(folder.glob("*")) if place.is_dir()]


def servers(place: str, release: Release) -> Iterator[tuple[str, str, dict[int, totals.Cell]]]:
    """Each way in which a lane starts its servers, stock and patched; what was found there, by drafted tokens."""
    found = totals.marked(place, release)
    for cell in CELLS[place.partition("/")[0]]:
        for kind in totals.KINDS:
            yield cell, kind, {k: one for k in MTP if (one := found.get(_name(kind, cell, k)))}


def table(found: list[Release]) -> str:
    """Right of all requests at k = 0..5, 7 and 15 (share of accepted drafts), and of the soak."""
    rows = []
    for lane, names in RELEASES.items():
        for release in reversed(found):
            rows += [row for row, _ in _rows(lane, release)] if release.name in names else []
        # Of real weights only what was run with them is shown.
        for place in real_weights(lane):
            for release in reversed(found):
                rows += [row for row, run in _rows(place, release) if run]
    head = " | ".join(f"k={k}" for k in MTP)
    return totals.table(f"lane | release |  | {head} | soak", rows)


def _rows(place: str, release: Release) -> Iterator[tuple[list[str], bool]]:
    """The rows of a release, each with whether any of it was run."""
    lane, _, weights = place.partition("/")
    for cell, kind, by_k in servers(place, release):
        shown, soak = [], totals.NOT_RUN
        for k in MTP:
            one = by_k.get(k)
            if k not in CELLS[lane][cell]:
                shown.append("–")
            elif one is None:
                shown.append(totals.NOT_RUN)
            else:
                accepted = f" ({one['acceptance']:.0%})" if k else ""
                shown.append(f"{one['right']}/{one['requests']}{accepted}{one['mark']}")
                if one["soak"]:
                    soak = f"{one['soak'][0]}/{one['soak'][1]}{one['mark']}"
        where = " ".join(word for word in (lane, cell, weights) if word)
        yield [where, release.name, kind, *shown, soak], not set(shown) <= {totals.NOT_RUN, "–"}
