# SPDX-License-Identifier: Apache-2.0
"""The tokens lane: schedules of a release's KV cache that met a wrong state, and how much came from the cache."""

from __future__ import annotations

from typing import Any

from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

LANE = "tokens"


def table(found: list[Release]) -> str:
    """One row a release that has results, one column a number of drafted tokens."""
    rows, ks = [], [str(k) for k in range(6)]
    for release in reversed(found):
        cell = totals.read(LANE, release.name).get("stock")
        if cell is None:
            continue
        old = totals.STALE if cell["key"] != key(release, "stock", LANE) else ""
        rows.append(f"| {release.name}{old} |" + "".join(f" {words(cell['k'].get(k))} |" for k in ks))
    head = "| stock release |" + "".join(f" k = {k} |" for k in ks)
    return "\n".join([head, "|" + "---|" * (len(ks) + 1), *rows]) + "\n"


def words(found: dict[str, Any] | None) -> str:
    """Wrong schedules of all, and the share of the prompts that was taken from the cache."""
    return "*not run*" if found is None else f"{found['wrong']}/{found['runs']}, {found['hit']:.0%}"
