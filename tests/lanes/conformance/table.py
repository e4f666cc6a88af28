# SPDX-License-Identifier: Apache-2.0
"""Totals of the suite for each release, and the tables made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance import SUITE_VERSION
from patchset import results
from patchset.release import Release, load

LANE = "conformance"
#: How the output was cut, in the table's order.
COLUMNS = (
    "not streamed",
    *(f"k={k}" for k in (0, 1, 2, 3, 4, 5, 7, 15)),
    "split",
    "whole",
)


def keep(target: dict[str, Any]) -> None:
    """Keep the totals of one tree, as ``report.document`` describes it."""
    columns = {}
    for name in COLUMNS:
        cells = [row[name] for row in target["matrix"] if name in row]
        if every := sum(cell["all"] for cell in cells):
            columns[name] = [sum(cell["right"] for cell in cells), every]
    figures = {
        name: target[name] for name in ("right", "all", "white_space_only", "classes")
    }
    kind = {"stock": "stock", "plugin": "plugin"}.get(target["kind"], "patched")
    release = load(target["release"]).name
    results.keep(LANE, SUITE_VERSION, release, kind, {**figures, "columns": columns})


def table(found: Iterable[Release]) -> str:
    """Right of all responses, over the surfaces and both reasoning settings."""
    rows = []
    for release in found:
        run = results.read(LANE, release.name)
        for kind in results.KINDS:
            shown = [_count(run, kind, column) for column in COLUMNS]
            one = [run[kind]] if kind in run else []
            day = results.taken(one, SUITE_VERSION, release.name)
            rows.append([release.name, kind, *shown, day])
    return results.table(f"release | | {' | '.join(COLUMNS)} | taken", rows)


def _count(run: dict[str, results.Cell], kind: str, column: str) -> str:
    right, every = run.get(kind, {"columns": {}})["columns"].get(column, (0, 0))
    return f"{right}/{every}" if every else results.NOT_RUN


def share(release: Release, kind: str, column: str) -> str:
    """The share of right responses in one column, in per cent; 100 % means all."""
    run = results.read(LANE, release.name).get(kind, {"columns": {}})
    right, every = run["columns"].get(column, (0, 0))
    if not every:
        return results.NOT_RUN
    percent = 100 if right == every else min(99, round(100 * right / every))
    return f"{percent} %"
