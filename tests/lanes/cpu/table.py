# SPDX-License-Identifier: Apache-2.0
"""Totals of the cpu lane, and the table made of them."""

from __future__ import annotations

from typing import Any

from cpu import SUITE_VERSION
from patchset import results
from patchset.release import Release

MTP = (0, 1, 2, 3, 4, 5, 7, 15)


def keep(receipt: dict[str, Any]) -> None:
    """Keep the totals of a receipt's servers; a soak is counted apart."""
    for one in receipt["servers"]:
        soak = one["by_check"].get("soak", {"right": 0, "requests": 0})
        figures = {
            "right": one["right"] - soak["right"],
            "requests": one["requests"] - soak["requests"],
            "acceptance": one["accepted"],
            "soak": [soak["right"], soak["requests"]] if soak["requests"] else None,
        }
        name = f"{one['variant']} k{one['mtp']}"
        results.keep("cpu", SUITE_VERSION, receipt["release"], name, figures)


def table(found: list[Release]) -> str:
    """Right of all requests by k, with the share of accepted drafts, and the soak."""
    rows = []
    for release in found:
        kept = results.read("cpu", release.name)
        for kind in results.KINDS if kept else ():
            by_k = {k: kept.get(f"{kind} k{k}") for k in MTP}
            ran = [row for row in by_k.values() if row]
            soaks = [row["soak"] for row in ran if row["soak"]]
            soak = f"{soaks[-1][0]}/{soaks[-1][1]}" if soaks else results.NOT_RUN
            shown = [_right(row, k) for k, row in by_k.items()]
            day = results.taken(ran, SUITE_VERSION, release.name)
            rows.append([release.name, kind, *shown, soak, day])
    head = " | ".join(f"k={k}" for k in MTP)
    return results.table(f"release | | {head} | soak | taken", rows)


def _right(row: results.Cell | None, k: int) -> str:
    if row is None:
        return results.NOT_RUN
    accepted = f" ({row['acceptance']:.0%})" if k else ""
    return f"{row['right']}/{row['requests']}{accepted}"
