# SPDX-License-Identifier: Apache-2.0
"""Receipts of the in-process lane: what the conformance suite found of a release, stock or patched, in short."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from patchset.base import files, paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release, load
from patchset.series import patched_files

#: Columns of the suite's matrix, in the order of the table: how the output was cut.
COLUMNS = ("not streamed", "k=0", "k=1", "k=2", "k=3", "k=4", "k=5", "fixed", "split", "whole")


def folder() -> Path:
    """Where the receipts stand."""
    return paths.project_root() / "tests" / "conformance" / "receipts"


def take(result: Path) -> list[Path]:
    """Condense what ``python -m conformance --json FILE`` wrote into one receipt for each tree that it judged.

    Raises:
        PatchsetError: the file is no such result, or judged a patched tree whose series is not today's.
    """
    try:
        targets = json.loads(result.read_text(encoding="utf-8"))["targets"]
        return [_take(target) for target in targets if target["kind"] != "server"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PatchsetError(f"{result} is not a result of the conformance suite: {error!r}") from error


def _take(target: dict[str, Any]) -> Path:
    release = load(target["release"])
    kind = "stock" if target["kind"] == "stock" else "patched"
    receipt = {
        "release": release.name,
        "kind": kind,
        "series-sha256": patched_files.sha256(release) if kind == "patched" else None,
        **{
            name: target[name]
            for name in ("right", "all", "white_space_only", "classes", "matrix", "differs")
        },
    }
    place = folder() / f"{release.name}-{kind}.json"
    files.write_text(place, json.dumps(receipt, indent=1, ensure_ascii=False) + "\n")
    return place


def table(found: list[Release]) -> str:
    """Right of all responses, over the three surfaces and both reasoning settings; *not run* where there is no receipt."""
    rows = [f"| release | |{'|'.join(f' {name} ' for name in COLUMNS)}|", "|---|---|" + "---|" * len(COLUMNS)]
    for release in reversed(found):
        for kind in ("stock", "patched"):
            cells = _cells(release, kind)
            rows.append(f"| {release.name} | {kind} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def share(release: Release, kind: str, column: str) -> str:
    """The share of right responses in one column, in per cent; or why there is none."""
    cell = _cells(release, kind)[COLUMNS.index(column)]
    right, _, every = cell.partition("/")
    # Rounded down: 100 % means all.
    return f"{100 * int(right) // int(every)} %" if every else cell


def _cells(release: Release, kind: str) -> list[str]:
    place = folder() / f"{release.name}-{kind}.json"
    if not place.is_file():
        return ["*not run*"] * len(COLUMNS)
    receipt = json.loads(place.read_text(encoding="utf-8"))
    if kind == "patched" and receipt["series-sha256"] != patched_files.sha256(release):
        return ["*series changed since*"] * len(COLUMNS)
    right: dict[str, int] = defaultdict(int)
    every: dict[str, int] = defaultdict(int)
    for row in receipt["matrix"]:
        for name in COLUMNS:
            right[name] += row.get(name, {}).get("right", 0)
            every[name] += row.get(name, {}).get("all", 0)
    return [f"{right[name]}/{every[name]}" if every[name] else "*not run*" for name in COLUMNS]
