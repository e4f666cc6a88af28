# SPDX-License-Identifier: Apache-2.0
"""``refresh``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_CONFLICT, EXIT_FAILED, UsageError
from patchset.base.release import load
from patchset.commands.options import from_dir_option, release_argument
from patchset.results import tables
from patchset.results.lint import lint
from patchset.series.refresh import refresh


@click.command()
@release_argument
@click.option("--all", "everything", is_flag=True, help="Generate for all releases, then lint.")
@from_dir_option
def command(release: str | None, everything: bool) -> None:
    """Write the commits of the patched tree of RELEASE back as its diffs and series, then what is generated.

    Commit first. A commit that 'apply' made goes back to its own diff; a new commit becomes a new diff, and its
    message must hold the fields of the header. Changes nothing when nothing changed.

    Generated are the diffs that carry files of patches/src, the releases in the headers of shared diffs, and
    patched-files.sha256, which pins what a series makes. Exit status 3 when a series does not apply.
    """
    if release and everything:
        raise UsageError("--all takes no release")
    loaded = load(release)
    outcome = refresh(loaded, everything=everything)
    tables.write()
    for word, entries in (
        ("changed", outcome.changed),
        ("added", outcome.added),
        ("removed", outcome.removed),
        ("wrote", outcome.generated),
    ):
        for entry in entries:
            console.result(f"{word} {entry}")
    if not everything:
        console.note(f"{loaded.name}: {len(outcome.unchanged)} diffs unchanged")
    for error in outcome.broken.values():
        console.show_error(error)
    faults = lint() if everything else []
    for fault in faults:
        console.result(fault)
    if set(outcome.broken) - (set() if everything else {loaded.name}):
        sys.exit(EXIT_CONFLICT)
    sys.exit(EXIT_FAILED if faults else 0)
