# SPDX-License-Identifier: Apache-2.0
"""Outputs through the serving code of releases, stock and patched, for a judge."""

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import results
from conformance.adapters import Job, TreeAdapter
from judges import LANES
from patchset import files, paths, release

#: What is wrong with an output, by column, and all wrong outputs of a tree by name.
Wrong = dict[str, Any]
Found = dict[str, Wrong]


def job(
    name: str, source: str, start: str, schedules: Iterable[str], **case: Any
) -> Job:
    """Return what the host takes: a case of the conformance suite, to be read alone."""
    about = {"description": f"{source}, {name}", "class": "must", "source": source}
    return {
        "name": name,
        "case": {**about, "starts": [start], **case},
        "surfaces": ["chat"],
        "starts": [start],
        "schedules": [*schedules],
        "readings": True,
    }


def replay(
    lane: str,
    names: tuple[str, ...],
    jobs: list[Job],
    columns: Iterable[str],
    judge: Callable[[str, dict[str, Any]], Wrong],
    row: Callable[[dict[str, int], Found], results.Cell],
    *,
    both: bool,
    workers: int,
    keep: bool,
    log: Path,
) -> dict[str, Found]:
    """Return what is wrong on each tree; the counts are printed, and rows are kept.

    Args:
        judge: Takes a job's name and what a client read, by schedule; none if the host
            died.
        row: Makes a row of how many are right, by column, and what is wrong.
        log: Gets all that is wrong, as JSON.
    """
    wrong = {}
    pinned = [release.load(name).name for name in names or [None]]
    for name, kind in itertools.product(pinned, results.KINDS[0 if both else 1 :]):
        adapter = TreeAdapter(paths.trees_dir(name) / kind, workers=workers)
        found = {
            result["name"]: bad
            for result in adapter.run(jobs)
            if (bad := judge(result["name"], result.get("readings", {})))
        }
        right = {
            column: len(jobs) - sum(column in bad for bad in found.values())
            for column in columns
        }
        counts = ", ".join(f"{count} ({column})" for column, count in right.items())
        print(f"{name} {kind}: of {len(jobs)}, right: {counts}", flush=True)
        wrong[f"{name} {kind}"] = found
        if keep:
            results.keep(lane, LANES[lane], name, kind, row(right, found))
    files.write_text(log, json.dumps(wrong, ensure_ascii=False, indent=1) + "\n")
    return wrong
