# SPDX-License-Identifier: Apache-2.0
"""The tokens lane: schedules of a release's KV cache that met a wrong state, and how much came from the cache."""

from __future__ import annotations

from typing import Any

from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

LANE = "tokens"
_KINDS = ("stock", "patched")


def table(found: list[Release]) -> str:
    """Two rows a release that has results, for async scheduling off and on; one column a number of drafted tokens."""
    rows, ks = [], [str(k) for k in range(6)]
    for release in reversed(found):
        cells = totals.read(LANE, release.name)
        if not any(kind in cells for kind in _KINDS):
            continue
        old = _stale(release, cells, _KINDS)
        by_mode = {kind: _by_mode(cells[kind]) for kind in _KINDS if kind in cells}
        for mode in dict.fromkeys(mode for modes in by_mode.values() for mode in modes):
            shown = []
            for k in ks:
                both = [by_mode.get(kind, {}).get(mode, {}).get(k) for kind in _KINDS]
                said = [words(one) for one in both]
                shown.append(said[0] if both[0] and not both[0]["runs"] else " → ".join(said))
            rows.append(f"| {release.name}{old} | {mode} |" + "".join(f" {cell} |" for cell in shown))
    head = "| release | async scheduling |" + "".join(f" k = {k} |" for k in ks)
    return "\n".join([head, "|" + "---|" * (len(ks) + 2), *rows]) + "\n"


def _by_mode(cell: totals.Cell) -> dict[str, dict[str, Any]]:
    """The runs by async scheduling; earlier results have them together."""
    found: dict[str, dict[str, Any]] = cell["async"] if "async" in cell else {"off and on": cell["k"]}
    return found


def words(found: dict[str, Any] | None) -> str:
    """Wrong schedules of all, and the share of the prompts that was taken from the cache."""
    if found is None:
        return "*not run*"
    return f"{found['wrong']}/{found['runs']}, {found['hit']:.0%}" if found["runs"] else "not supported"


def soak_table(found: list[Release]) -> str:
    """One row a release and kind that was soaked."""
    rows, ks = [], [str(k) for k in range(1, 6)]
    for release in reversed(found):
        cells = totals.read(LANE, release.name)
        for kind in _KINDS:
            if (cell := cells.get(f"{kind} soak")) is None:
                continue
            runs = [cell["k"][k] for k in ks]
            old = _stale(release, cells, (f"{kind} soak",))
            rows.append(
                f"| {release.name} {kind}{old} |"
                + "".join(f" {soaked(run)} |" for run in runs)
                + f" {sum(run['turns'] for run in runs)} | {sum(run['preempted'] for run in runs)} |"
                + f" {max(run['at once'] for run in runs)} |"
                + f" {min(run['hit'] for run in runs):.0%} to {max(run['hit'] for run in runs):.0%} |"
            )
    if not rows:
        return "*not run*\n"
    head = "| release |" + "".join(f" k = {k} |" for k in ks)
    head += " later turns | preempted | at once | from the cache |"
    return "\n".join([head, "|" + "---|" * (len(ks) + 5), *rows]) + "\n"


def soaked(found: dict[str, Any]) -> str:
    """Right answers of all requests."""
    return f"{found['right']}/{found['requests']}" if found["requests"] else "not supported"


def _stale(release: Release, cells: dict[str, totals.Cell], names: tuple[str, ...]) -> str:
    old = any(cells[n]["key"] != key(release, n.split(" ")[0], LANE) for n in names if n in cells)
    return totals.STALE if old else ""
