# SPDX-License-Identifier: Apache-2.0
"""Tables of replies that are shown otherwise, and of tokens that are lost by it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import results
from history import BLOCKS, LANE, SUITE_VERSION, SURFACES
from history.clients import CLIENTS
from patchset.release import Release

#: Whose doing a difference can be, as tables name it.
CAUSES = ("server", "client", "template")


def table(found: Iterable[Release]) -> str:
    """Return the newest release that was asked: replies that differ and tokens that
    are lost, by template and client; then causes.
    """
    for release, rows in results.asked(LANE, found):
        cells = {kind: row["replies"] for kind, row in rows.items()}
        one = next(iter(cells.values()))
        templates = dict.fromkeys(place.partition("/")[0] for place in one)
        lines = [
            [f"{template}, {client}", *_figures(cells, template, client)]
            for template in templates
            for client in CLIENTS
        ]
        blocks = " | ".join(f"lost, blocks of {block}" for block in BLOCKS)
        head = f"{release.name}: template, client | {' | '.join(SURFACES)} | {blocks}"
        sums = {kind: _causes(cell) for kind, cell in cells.items()}
        names = sorted({name for counts in sums.values() for name in counts})
        causes = [
            [
                name,
                results.change(
                    {kind: counts[name] for kind, counts in sums.items()}, str
                ),
            ]
            for who in CAUSES
            for name in names
            if name.startswith(who)
        ]
        day = results.taken(rows.values(), SUITE_VERSION, release.name)
        by_cause = results.table("whose: what is shown otherwise | replies", causes)
        return f"{results.table(head, lines)}\n{by_cause}\nTaken {day}.\n"
    return f"{results.NOT_RUN}\n"


def _figures(cells: dict[str, Any], template: str, client: str) -> Iterator[str]:
    for surface in SURFACES:
        place = f"{template}/{surface}"
        yield results.change(cells, partial(_differ, place, client))
    for block in BLOCKS:
        yield results.change(cells, partial(_lost, template, client, str(block)))


def _differ(place: str, client: str, cell: results.Cell) -> str:
    mine = cell[place][client]
    return f"{sum(mine['causes'].values())}/{mine['replies']}"


def _lost(template: str, client: str, block: str, cell: results.Cell) -> str:
    """Return the share of a session's prompt tokens that is computed again, on the
    three surfaces, and behind a + what whole blocks cost besides.
    """
    said = [cell[f"{template}/{surface}"][client]["session"] for surface in SURFACES]
    if any("refused" in one for one in said):
        return "refused"
    prompts = sum(one["prompts"] for one in said)
    lost, blocks = (sum(one["lost"][block][n] for one in said) for n in (0, 1))
    return f"{lost / prompts:.2%} + {blocks / prompts:.1%}"


def _causes(cell: results.Cell) -> Counter[str]:
    """Return replies by cause; of the second client, only what is its own."""
    sums = Counter[str]()
    for clients in cell.values():
        for client, mine in clients.items():
            for cause, count in mine["causes"].items():
                if client == CLIENTS[0] or cause.startswith("client"):
                    sums[cause] += count
    return sums
