# SPDX-License-Identifier: Apache-2.0
"""The clients lane: right runs of all, for each client and API, from its totals."""

from __future__ import annotations

from patchset.release import Release
from patchset.results import totals

LANE = "clients"
HARMS = {
    "ran": "ran something unasked",
    "bytes": "a call with other bytes",
    "lost": "a call or the session lost",
    "text": "text lost or misplaced",
    "form": "form alone (counted as right)",
}


def table(found: list[Release]) -> str:
    """One row a client and API, then one a harm; one column a release with results."""
    run = {
        release.name: cells
        for release in reversed(found)
        if (cells := totals.marked(LANE, release))
    }
    clients = dict.fromkeys(
        client
        for cells in run.values()
        for kind in totals.KINDS
        for client in cells.get(kind, {}).get("clients", {})
    )
    rows = []
    for client in clients:
        name, surface = client.split("/")
        runs = (
            {kind: cell["clients"].get(client, {}) for kind, cell in cells.items()}
            for cells in run.values()
        )
        shares = (totals.change(one, _share) for one in runs)
        rows.append([name.replace("_", " "), surface, *shares])
    for harm, title in HARMS.items():
        counts = (
            totals.change(cells, lambda cell, harm=harm: _count(cell, harm))
            for cells in run.values()
        )
        rows.append([title, "all", *counts])
    titles = (f" | {_title(release, cells)}" for release, cells in run.items())
    return totals.table(f"client | API{''.join(titles)}", rows)


def _title(release: str, cells: dict[str, totals.Cell]) -> str:
    """The release and the dates of its results."""
    dates = sorted({cell["date"] for cell in cells.values()})
    return f"{release}, {' and '.join(dates)}{totals.mark(cells.values())}"


def _share(runs: totals.Cell) -> str:
    return f"{runs['right']}/{runs['runs']}" if runs else totals.NOT_RUN


def _count(cell: totals.Cell, harm: str) -> str:
    """How many runs of all clients did a harm, as their worst."""
    if not cell:
        return totals.NOT_RUN
    return str(sum(len(runs.get(harm, [])) for runs in cell["clients"].values()))
