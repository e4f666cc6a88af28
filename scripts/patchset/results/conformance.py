# SPDX-License-Identifier: Apache-2.0
"""Totals of the in-process lane: what the conformance suite found of a release, stock or patched."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from patchset.base.errors import PatchsetError
from patchset.base.release import Release, load
from patchset.results import totals
from patchset.results.key import key

LANE = "conformance"

#: Columns of the suite's matrix, in the order of the table: how the output was cut.
COLUMNS = ("not streamed", *(f"k={k}" for k in (0, 1, 2, 3, 4, 5, 7, 15)), "split", "whole")


def take(result: Path) -> list[Path]:
    """Condense what ``python -m conformance --json FILE`` wrote into totals for each tree that it judged."""
    try:
        targets = json.loads(result.read_text(encoding="utf-8"))["targets"]
        return [_take(target) for target in targets if target["kind"] != "server"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PatchsetError(
            f"{result} is not a result of the conformance suite: {error}",
            "run the suite again: nox -s conformance -- RELEASE --results",
        ) from error


def _take(target: dict[str, Any]) -> Path:
    release = load(target["release"])
    kind = "stock" if target["kind"] == "stock" else "patched"
    right: dict[str, int] = defaultdict(int)
    every: dict[str, int] = defaultdict(int)
    for row in target["matrix"]:
        for name in COLUMNS:
            right[name] += row.get(name, {}).get("right", 0)
            every[name] += row.get(name, {}).get("all", 0)
    cell = {
        "key": key(release, kind, LANE),
        **{name: target[name] for name in ("right", "all", "white_space_only", "classes")},
        "columns": {name: [right[name], every[name]] for name in COLUMNS if every[name]},
    }
    return totals.keep(LANE, release.name, kind, cell)


def table(found: list[Release]) -> str:
    """Right of all responses, over the three surfaces and both reasoning settings; *not run* where there is none."""
    rows = [f"| release | |{'|'.join(f' {name} ' for name in COLUMNS)}|", "|---|---|" + "---|" * len(COLUMNS)]
    for release in reversed(found):
        for kind in ("stock", "patched"):
            cells = _cells(release, kind)
            rows.append(f"| {release.name} | {kind} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def share(release: Release, kind: str, column: str) -> str:
    """The share of right responses in one column, in per cent; or why there is none."""
    cell = _cells(release, kind)[COLUMNS.index(column)]
    mark = totals.STALE if cell.endswith(totals.STALE) else ""
    right, _, every = cell.removesuffix(mark).partition("/")
    if not every:
        return cell
    per_cent = round(100 * int(right) / int(every))
    # 100 % means all.
    return f"{per_cent if right == every else min(99, per_cent)} %{mark}"


def _cells(release: Release, kind: str) -> list[str]:
    cell = totals.read(LANE, release.name).get(kind)
    if cell is None:
        return ["*not run*"] * len(COLUMNS)
    mark = "" if cell["key"] == key(release, kind, LANE) else totals.STALE
    counts = (cell["columns"].get(name) for name in COLUMNS)
    return [f"{count[0]}/{count[1]}{mark}" if count else "*not run*" for count in counts]
