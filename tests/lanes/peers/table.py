# SPDX-License-Identifier: Apache-2.0
"""The table of what other engines read."""

from collections.abc import Iterable

import results
from conformance.check import HARMS
from patchset.release import Release
from peers import SUITE_VERSION

LANE = "peers"
#: Harms of a message: its form is not asked.
SHOWN = HARMS[:-1]
HEAD = f"engine | right | {' | '.join(SHOWN)} | *view* | real | burst-dependent | µs"
#: Fair to say of a table in which one's own engine comes first.
OURS = (
    "The suite is ours, the patches are made to pass it, and the other engines have "
    "never seen it."
)


def cells(figures: results.Cell) -> list[str]:
    core = figures.get("core", {})
    if not core:
        return ["–"] * (HEAD.count("|"))
    costs = ["–" if us is None else f"{us:g}" for us in figures["cost"]]
    return [
        _right(core),
        *(str(core.get(harm, 0)) for harm in SHOWN),
        *(_right(figures.get(group, {})) for group in ("view", "real")),
        str(core.get("burst_dependent", 0)),
        "; ".join(costs) or "–",
    ]


def _order(row: results.Cell) -> int:
    return -int(row.get("core", {}).get("right", 0))


def _right(tally: dict[str, int]) -> str:
    return f"{tally.get('right', 0)}/{tally['cases']}" if tally else "–"


def table(releases: Iterable[Release]) -> str:
    """Return the default release, stock and patched, and the peers beside it."""
    for release in releases:
        if rows := results.read(LANE, release.name):
            lines = [
                [f"{row['title']} {row['version']}", *cells(row)]
                for row in sorted(rows.values(), key=_order)
            ]
            day = results.taken(rows.values(), SUITE_VERSION, release.name)
            return f"{results.table(HEAD, lines)}\n{OURS} Taken {day}.\n"
    return f"{results.NOT_RUN}\n"
