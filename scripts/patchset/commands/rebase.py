# SPDX-License-Identifier: Apache-2.0
"""``rebase``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_CONFLICT
from patchset.commands.options import from_dir_option
from patchset.rebase import run
from patchset.rebase.run import Options, rebase, work_folder


@click.command()
@click.argument("release")
@click.option(
    "--from", "old", metavar="RELEASE", help="Whose series is ported; else the nearest one that has any."
)
@click.option("--dry-run", is_flag=True, help="Only say what would come out; change nothing.")
@click.option("--continue", "resume", is_flag=True, help="Resume after a conflict was resolved or skipped.")
@click.option("--restart", is_flag=True, help="Start over; throws away conflicts that were resolved.")
@click.option("--replace", is_flag=True, help="Replace the series that RELEASE has already.")
@from_dir_option
def command(release: str, old: str | None, dry_run: bool, resume: bool, restart: bool, replace: bool) -> None:
    """Port a series to RELEASE, newer or older: pin it, and write patches/RELEASE.

    Each patch is ported as it stands, at an offset, or by a three-way merge; one that upstream has is dropped,
    and its proof must pass on the stock tree from then on. A conflict stops the run in an ordinary git
    cherry-pick (exit status 3). Nothing below patches/ changes before the end. The report: build/rebase/RELEASE.
    --from RELEASE itself refreshes its series after a diff in patches/common changed.
    """
    options = Options(old=old, resume=resume, restart=restart, replace=replace)
    report = run.dry_run(release, options) if dry_run else rebase(release, options)
    report.show(dry=dry_run)
    if not dry_run:
        console.result(str(work_folder(report.new) / "report.md"))
    sys.exit(EXIT_CONFLICT if report.conflicts else 0)
