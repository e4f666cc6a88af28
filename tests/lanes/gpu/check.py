# SPDX-License-Identifier: Apache-2.0
"""Whether a receipt that somebody sent is of the series and whole, and the table of those that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gpu import report
from patchset import console, files, paths, results
from patchset.errors import PatchsetError
from patchset.release import Release, load
from patchset.series import patched_files
from patchset.wheel.overlay import inside_wheel

#: A receipt of all cells has some hundred kilobytes.
_MOST_BYTES = 4 << 20


def folder() -> Path:
    """Receipts that are kept: those of GPUs are shown in docs/tables.md."""
    return paths.project_root() / "results" / "receipts"


def check(place: Path) -> report.Receipt:
    """Read a receipt.

    Raises:
        PatchsetError: it is none, was edited, or is of other files than the series'.
    """
    try:
        receipt: report.Receipt = json.loads(files.read_regular(place, _MOST_BYTES))
        if receipt["format"] != report.FORMAT:
            raise PatchsetError(f"{place.name} has format {receipt['format']}")
        if receipt["sha256"] != report.sum_of(receipt):
            raise PatchsetError(
                f"{place.name} was edited: its sum is not its content's",
                "ask for the file as it was written",
            )
        release = load(receipt["release"])
        pinned = patched_files.read(release) or {}
        wanted = {path: pinned[path] for path in pinned if inside_wheel(path)}
        served = receipt["files"]
        for path in sorted({*wanted, *served}):
            if wanted.get(path) != served.get(path):
                raise PatchsetError(
                    f"{place.name}: {path} is not the series' of {release.name}",
                    f"was it written by a file of another commit, {receipt['commit']}?",
                )
        if receipt["series"] != files.sha256_file(patched_files.file(release)):
            raise PatchsetError(f"{place.name} is of another series of {release.name}")
        for one in receipt["servers"]:
            counted = [count for count in one["by_check"].values()]
            for key in ("right", "requests"):
                if sum(count[key] for count in counted) != one[key]:
                    raise PatchsetError(f"{place.name}: the counts do not add up")
        report.table(receipt)
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise PatchsetError(f"{place.name} is no receipt: {error!r}"[:300]) from error
    return receipt


def keep(receipt: report.Receipt) -> Path:
    """Keep a checked receipt for docs/tables.md; one of the same GPU and release is replaced."""
    machine = receipt["machine"]
    where = (machine["gpus"] or ["CPU"])[0].partition(",")[0]
    name = "".join(c if c.isalnum() else "-" for c in where.lower()).strip("-")
    place = folder() / f"{receipt['release']}-{name}.json"
    files.write_text(place, json.dumps(receipt, indent=1) + "\n")
    console.note(f"kept in {place}")
    return place


def table(found: Iterable[Release]) -> str:
    """The receipts of GPUs, the newest release first."""
    head = "GPU | release | server | | right of all | accepted by position | tokens/s | p50 / p99 | streams | taken"
    rows = []
    for release in found:
        for place in sorted(folder().glob(f"{release.name}-*.json")):
            receipt = json.loads(place.read_text(encoding="utf-8"))
            row = {"files": receipt["series"][: results.DIGITS], "suite": 0}
            for gpu in receipt["machine"]["gpus"][:1]:
                changed = results.outdated(row, 0, release.name)
                day = receipt["taken"] + " (earlier series)" * bool(changed)
                rows += [
                    [gpu, release.name, *cells, day]
                    for cells in report.rows(receipt["servers"])
                ]
    return results.table(head, rows) if rows else f"{results.NOT_RUN}\n"
