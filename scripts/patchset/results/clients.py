# SPDX-License-Identifier: Apache-2.0
"""The clients lane: right runs of all, for each client and API, from its totals."""

from __future__ import annotations

from typing import Any

from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

LANE = "clients"
KINDS = ("stock", "patched")
NOT_RUN = "*not run*"


def table(found: list[Release]) -> str:
    """One row a client and API, one column a release that has results."""
    run = [(release, cells) for release in reversed(found) if (cells := totals.read(LANE, release.name))]
    clients = dict.fromkeys(
        name for _, cells in run for kind in KINDS for name in cells.get(kind, {}).get("clients", {})
    )
    head = "| client | API |" + "".join(f" {_title(release, cells)} |" for release, cells in run)
    rule = "|" + "---|" * (head.count("|") - 1)
    rows = []
    for client in clients:
        name, surface = client.split("/")
        changes = [" → ".join(_share(cells, kind, client) for kind in KINDS) for _, cells in run]
        rows.append(f"| {name.replace('_', ' ')} | {surface} | {' | '.join(changes)} |")
    quoted = [" → ".join(_quoted(cells, kind) for kind in KINDS) for _, cells in run]
    rows.append(f"| quoted calls delivered or run | all | {' | '.join(quoted)} |")
    return "\n".join([head, rule, *rows]) + "\n"


def _title(release: Release, cells: dict[str, Any]) -> str:
    """The release and the values of k that the runs had; a mark if a result is of an earlier series or suite."""
    widths = {k for cell in cells.values() for runs in cell["clients"].values() for k in runs["k"]}
    old = any(cell["key"] != key(release, kind, LANE) for kind, cell in cells.items())
    return f"{release.name}, k = {', '.join(str(k) for k in sorted(widths))}{totals.STALE if old else ''}"


def _share(cells: dict[str, Any], kind: str, client: str) -> str:
    runs = cells.get(kind, {}).get("clients", {}).get(client)
    return f"{runs['right']}/{runs['runs']}" if runs else NOT_RUN


def _quoted(cells: dict[str, Any], kind: str) -> str:
    if kind not in cells:
        return NOT_RUN
    return str(sum(runs["quoted"] for runs in cells[kind]["clients"].values()))
