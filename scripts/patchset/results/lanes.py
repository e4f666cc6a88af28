# SPDX-License-Identifier: Apache-2.0
"""The lanes that ask a real server: right answers of all, for each number of drafted tokens, from their receipts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchset.base import paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release
from patchset.series import patched_files

#: Where each lane keeps its receipts, below the project's root.
FOLDERS = {"cpu": Path("tests/e2e/receipts"), "gpu": Path("tests/gpu/receipts")}
#: Releases that each lane is for.
RELEASES = {"cpu": ("v0.32.0",), "gpu": ("v0.26.0", "v0.23.0")}
MTP = range(6)
#: Ways in which a lane starts its servers, and the numbers of drafted tokens of each (tests/gpu/cells.py).
CELLS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {"": tuple(MTP)},
    "gpu": {"graphs": tuple(MTP), "prefix": tuple(MTP), "eager": (0, 3), "sync": (0, 3)},
}
NOT_RUN = "*not run*"
NO_CELL = "–"


def _receipt(folder: Path, release: Release, variant: str, cell: str, mtp: int) -> dict[str, Any] | None:
    name = "-".join(word for word in (release.name, variant, cell, f"k{mtp}") if word)
    place = folder / f"{name}.json"
    try:
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PatchsetError(f"{place} is not a receipt: {error}") from error
    return found


def _cells(folder: Path, lane: str, release: Release, variant: str, cell: str) -> list[str]:
    cells, soak = [], NOT_RUN
    for mtp in MTP:
        receipt = _receipt(folder, release, variant, cell, mtp)
        if mtp not in CELLS[lane][cell]:
            cells.append(NO_CELL)
        elif receipt is None:
            cells.append(NOT_RUN)
        elif variant == "patched" and receipt["series_sha256"] != patched_files.sha256(release):
            cells.append("*series changed since*")
        else:
            checks = receipt["by_check"]
            long = checks.get("soak")
            right, asked = receipt["right"], receipt["requests"]
            if long:
                soak = f"{long['right']}/{long['requests']}"
                right, asked = right - long["right"], asked - long["requests"]
            cells.append(f"{right}/{asked}" + (f" ({receipt['acceptance']:.0%})" if mtp else ""))
    return [*cells, soak]


def table(found: list[Release]) -> str:
    """Right of all requests at k = 0..5 (share of accepted drafts), and of the soak."""
    head = ["lane", "release", "", *(f"k={mtp}" for mtp in MTP), "soak"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    by_name = {release.name: release for release in found}
    for lane, names in RELEASES.items():
        folder = paths.project_root() / FOLDERS[lane]
        for release in (by_name[name] for name in names if name in by_name):
            rows += _rows(lane, folder, release, "")
        # Real weights have a folder each; only what was run with them is shown.
        for weights in sorted(place for place in folder.glob("*") if place.is_dir()):
            for release in reversed(found):
                if any(weights.glob(f"{release.name}-*.json")):
                    rows += _rows(lane, weights, release, weights.name)
    return "\n".join(rows) + "\n"


def _rows(lane: str, folder: Path, release: Release, weights: str) -> list[str]:
    rows = []
    for cell in CELLS[lane]:
        for variant in ("stock", "patched"):
            found = _cells(folder, lane, release, variant, cell)
            if weights and set(found) <= {NOT_RUN, NO_CELL}:
                continue
            where = [" ".join(word for word in (lane, cell, weights) if word), release.name, variant]
            rows.append(f"| {' | '.join([*where, *found])} |")
    return rows
