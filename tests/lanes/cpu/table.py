# SPDX-License-Identifier: Apache-2.0
"""Totals of real servers, of the cpu and the gpu lane, and the tables made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cpu import SUITE_VERSION
from patchset import results
from patchset.release import Release

#: Releases that each lane is for.
RELEASES = {"cpu": ("v0.32.0",), "gpu": ("v0.33.0", "v0.26.0", "v0.23.0")}
MTP = (0, 1, 2, 3, 4, 5, 7, 15)
#: Ways to start a server, with the drafted tokens of each (gpu/cells.py).
CELLS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {"": MTP},
    "gpu": {
        "graphs": MTP,
        "prefix": MTP,
        "eager": (0, 3),
        "sync": (0, 3),
        "prefix-sync": (0, 3),
    },
}


def _name(kind: str, cell: str, mtp: int) -> str:
    return " ".join(word for word in (kind, cell, f"k{mtp}") if word)


def keep(lane: str, result: dict[str, Any]) -> None:
    """Keep the totals of one server; its soak is counted apart."""
    soak = result["by_check"].get("soak") or {"right": 0, "requests": 0}
    figures = {
        "right": result["right"] - soak["right"],
        "requests": result["requests"] - soak["requests"],
        "acceptance": result["acceptance"],
        "soak": [soak["right"], soak["requests"]] if soak["requests"] else None,
        "wheel": result["wheel"],
        "finished": result.get("finished"),
    }
    if result.get("tool_eval"):
        figures["tool_eval"] = result["tool_eval"]
    name = _name(result["variant"], result.get("cell", ""), result["mtp"])
    results.keep(lane, SUITE_VERSION, result["release"], name, figures)


def real_weights(lane: str) -> list[str]:
    """The lanes ``gpu/<weights>`` that have results."""
    folder = results.file(lane, "").parent
    places = [place for place in sorted(folder.glob("*")) if place.is_dir()]
    return [f"{lane}/{place.name}" for place in places]


def servers(
    place: str, release: Release
) -> Iterator[tuple[str, str, dict[int, results.Cell]]]:
    """Each way to start a server, stock and patched, with its rows by k."""
    found = results.read(place, release.name)
    for cell in CELLS[place.partition("/")[0]]:
        for kind in results.KINDS:
            names = {k: _name(kind, cell, k) for k in MTP}
            yield (
                cell,
                kind,
                {k: found[name] for k, name in names.items() if name in found},
            )


def table(found: list[Release]) -> str:
    """Right of all requests by k, with the share of accepted drafts, and the soak."""
    rows = []
    for lane, names in RELEASES.items():
        for release in found:
            if release.name in names:
                rows += [row for row, _ in _rows(lane, release)]
        # Of real weights only what was run is shown.
        for place in real_weights(lane):
            for release in found:
                rows += [row for row, run in _rows(place, release) if run]
    head = " | ".join(f"k={k}" for k in MTP)
    return results.table(f"lane | release | | {head} | soak | taken", rows)


def _rows(place: str, release: Release) -> Iterator[tuple[list[str], bool]]:
    """The rows of a release, each with whether any of it was run."""
    lane, _, weights = place.partition("/")
    for cell, kind, by_k in servers(place, release):
        asked = CELLS[lane][cell]
        shown = [_right(by_k.get(k), k) if k in asked else "–" for k in MTP]
        soaks = [row["soak"] for row in by_k.values() if row["soak"]]
        soak = f"{soaks[-1][0]}/{soaks[-1][1]}" if soaks else results.NOT_RUN
        day = results.taken(by_k.values(), SUITE_VERSION, release.name)
        where = " ".join(word for word in (lane, cell, weights) if word)
        yield [where, release.name, kind, *shown, soak, day], bool(by_k)


def _right(row: results.Cell | None, k: int) -> str:
    if row is None:
        return results.NOT_RUN
    accepted = f" ({row['acceptance']:.0%})" if k else ""
    return f"{row['right']}/{row['requests']}{accepted}"


def tool_eval_table(found: Iterable[Release]) -> str:
    """Points of tool-eval-bench on real weights by k."""
    rows = []
    for place in real_weights("gpu"):
        for release in found:
            for cell, kind, by_k in servers(place, release):
                points = [_points(by_k.get(k, {})) for k in MTP]
                if set(points) != {results.NOT_RUN}:
                    day = results.taken(by_k.values(), SUITE_VERSION, release.name)
                    weights = place.removeprefix("gpu/")
                    where = f"{release.name} {cell}"
                    rows.append([weights, where, kind, *points, day])
    head = " | ".join(f"k={k}" for k in MTP)
    if not rows:
        return f"{results.NOT_RUN}\n"
    return results.table(f"weights | release | | {head} | taken", rows)


def _points(row: results.Cell) -> str:
    """A server's points, with the number of scenarios that it failed itself."""
    if not (said := row.get("tool_eval")):
        return results.NOT_RUN
    earned, most = said["points"]
    failed = said["failed_by_server"]
    return f"{earned}/{most}" + (f" (server failed {len(failed)})" if failed else "")
