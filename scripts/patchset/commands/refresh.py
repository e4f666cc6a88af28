# SPDX-License-Identifier: Apache-2.0
"""``refresh``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import load
from patchset.commands.options import release_argument
from patchset.series.refresh import refresh


@click.command()
@release_argument
def command(release: str | None) -> None:
    """Write the commits of the patched tree of RELEASE back as its diffs and series.

    Commit first. A commit that 'apply' made goes back to its own diff; a new commit becomes a new diff, and its
    message must hold the fields of the header. Changes nothing when nothing changed.
    """
    loaded = load(release)
    outcome = refresh(loaded)
    for word, entries in (
        ("changed", outcome.changed),
        ("added", outcome.added),
        ("removed", outcome.removed),
    ):
        for entry in entries:
            console.result(f"{word} {entry}")
    for entry, others in outcome.shared.items():
        if others:
            console.note(f"{entry} is shared: run nox -s apply for {', '.join(others)} too")
    console.note(f"{loaded.name}: {len(outcome.unchanged)} diffs unchanged")
