# SPDX-License-Identifier: Apache-2.0
"""Totals of the in-process lane: what the conformance suite found of a release, stock or patched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchset.errors import PatchsetError
from patchset.release import Release, load
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
    columns = {}
    for name in COLUMNS:
        cells = [row[name] for row in target["matrix"] if name in row]
        if every := sum(cell["all"] for cell in cells):
            columns[name] = [sum(cell["right"] for cell in cells), every]
    cell = {
        "key": key(release, kind, LANE),
        **{name: target[name] for name in ("right", "all", "white_space_only", "classes")},
        "columns": columns,
    }
    return totals.keep(LANE, release.name, kind, cell)


def table(found: list[Release]) -> str:
    """Right of all responses, over the three surfaces and both reasoning settings; *not run* where there is none."""
    rows = []
    for release in reversed(found):
        cells = totals.marked(LANE, release)
        for kind in totals.KINDS:
            counts = (_count(cells, kind, column) for column in COLUMNS)
            shown = (f"{right}/{every}{mark}" if every else mark for right, every, mark in counts)
            rows.append([release.name, kind, *shown])
    return totals.table("release | | " + " | ".join(COLUMNS), rows)


def share(release: Release, kind: str, column: str) -> str:
    """The share of right responses in one column, in per cent; or why there is none."""
    right, every, mark = _count(totals.marked(LANE, release), kind, column)
    if not every:
        return mark
    # 100 % means all.
    return f"{100 if right == every else min(99, round(100 * right / every))} %{mark}"


def _count(cells: dict[str, totals.Cell], kind: str, column: str) -> tuple[int, int, str]:
    """Right and all responses and the mark behind them; or none, and why."""
    cell = cells.get(kind, {"columns": {}})
    right, every = cell["columns"].get(column, (0, 0))
    return right, every, cell["mark"] if every else totals.NOT_RUN
