# SPDX-License-Identifier: Apache-2.0
"""The clients lane: right runs of all, for each client and API, from its totals."""

from __future__ import annotations

from patchset.release import Release
from patchset.results import totals

LANE = "clients"


def table(found: list[Release]) -> str:
    """One row a client and API, one column a release that has results."""
    run = {release.name: cells for release in reversed(found) if (cells := totals.marked(LANE, release))}
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
            {kind: cell["clients"].get(client, {}) for kind, cell in cells.items()} for cells in run.values()
        )
        rows.append([name.replace("_", " "), surface, *(totals.change(one, _share) for one in runs)])
    quoted = (totals.change(cells, _quoted) for cells in run.values())
    rows.append(["quoted calls delivered or run", "all", *quoted])
    titles = (f" | {_title(release, cells)}" for release, cells in run.items())
    return totals.table(f"client | API{''.join(titles)}", rows)


def _title(release: str, cells: dict[str, totals.Cell]) -> str:
    """The release and the values of k that the runs had; a mark if a result is of an earlier series or suite."""
    widths = {k for cell in cells.values() for runs in cell["clients"].values() for k in runs["k"]}
    return f"{release}, k = {', '.join(str(k) for k in sorted(widths))}{totals.mark(cells.values())}"


def _share(runs: totals.Cell) -> str:
    return f"{runs['right']}/{runs['runs']}" if runs else totals.NOT_RUN


def _quoted(cell: totals.Cell) -> str:
    return str(sum(runs["quoted"] for runs in cell["clients"].values())) if cell else totals.NOT_RUN
