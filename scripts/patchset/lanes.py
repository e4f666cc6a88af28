# SPDX-License-Identifier: Apache-2.0
"""The lanes that ask a real server: right answers of all, for each number of drafted tokens, from their receipts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchset import paths, series
from patchset.errors import PatchsetError
from patchset.release import Release

#: Where each lane keeps its receipts, below the project's root.
FOLDERS = {"cpu": Path("tests/e2e/receipts"), "gpu": Path("tests/gpu/receipts")}
#: Releases that each lane is for.
RELEASES = {"cpu": ("v0.32.0",), "gpu": ("v0.26.0", "v0.23.0")}
MTP = range(6)
NOT_RUN = "*not run*"


def _receipt(lane: str, release: Release, variant: str, mtp: int) -> dict[str, Any] | None:
    place = paths.project_root() / FOLDERS[lane] / f"{release.name}-{variant}-k{mtp}.json"
    try:
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PatchsetError(f"{place} is no receipt: {error}") from error
    return found


def _cells(lane: str, release: Release, variant: str) -> list[str]:
    cells, soak = [], NOT_RUN
    for mtp in MTP:
        receipt = _receipt(lane, release, variant, mtp)
        if receipt is None:
            cells.append(NOT_RUN)
        elif variant == "patched" and receipt["series_sha256"] != series.sha256(release):
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
        for name in names:
            for variant in ("stock", "patched"):
                if release := by_name.get(name):
                    rows.append(f"| {' | '.join([lane, name, variant, *_cells(lane, release, variant)])} |")
    return "\n".join(rows) + "\n"
