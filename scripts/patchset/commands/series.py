# SPDX-License-Identifier: Apache-2.0
"""What is below patches/, and made from it: ``lint``, ``apply``, ``refresh``, ``share``."""

from __future__ import annotations

import sys

import click

from patchset import console
from patchset.commands.options import from_dir_option, release_argument
from patchset.errors import EXIT_CONFLICT, EXIT_FAILED, UsageError
from patchset.release import load
from patchset.series import share
from patchset.series.apply import patched_tree
from patchset.series.lint import lint
from patchset.series.refresh import refresh


@click.command("lint")
def lint_command() -> None:
    """Check the pins, series, diffs and headers under patches/. Needs no network and takes a second.

    Exit status 1, and a line for each fault, when something is not as it should be.
    """
    faults = lint()
    console.result(*faults)
    console.note(f"lint: {len(faults)} faults" if faults else "lint: patches/ is as it should be")
    sys.exit(EXIT_FAILED if faults else 0)


@click.command("apply")
@release_argument
@click.option(
    "--upto", metavar="N|NAME", help="Stop after the first N patches (0: none), or after the patch NAME."
)
@click.option(
    "--without", metavar="NAME", multiple=True, help="Leave this patch out; may be given several times."
)
@click.option(
    "--discard", is_flag=True, help="Throw away edits and commits in the patched tree that no diff has."
)
@from_dir_option
def apply_command(release: str | None, upto: str | None, without: tuple[str, ...], discard: bool) -> None:
    """Make the patched tree of RELEASE: its source, and one commit for each patch of its series.

    The tree is build/trees/RELEASE/patched. A patch applies with its exact context, at an offset if need be and never
    with fuzz, and the whole series must make what patched-files.sha256 pins, or the command stops: exit status 3 for
    a conflict, 4 for a patch whose change the source has already.
    """
    console.result(patched_tree(load(release), upto=upto, without=without, discard=discard))


@click.command("refresh")
@release_argument
@click.option("--all", "everything", is_flag=True, help="Generate for all releases, then lint.")
@from_dir_option
def refresh_command(release: str | None, everything: bool) -> None:
    """Write the commits of the patched tree of RELEASE back as its diffs and series, then what is generated.

    Commit first. A commit that 'apply' made goes back to its own diff; a new commit becomes a new diff, and its
    message must hold the fields of the header. Changes nothing when nothing changed.

    Generated are the diffs that carry files of patches/files, the releases in the headers of shared diffs, and
    patched-files.sha256, which pins what a series makes. Exit status 3 when a series does not apply.
    """
    if release and everything:
        raise UsageError("--all takes no release")
    loaded = load(release)
    outcome = refresh(loaded, everything=everything)
    console.result(*(f"changed {entry}" for entry in outcome.changed))
    console.result(*(f"added {entry}" for entry in outcome.added))
    console.result(*(f"removed {entry}" for entry in outcome.removed))
    console.result(*(f"wrote {entry}" for entry in outcome.generated))
    if not everything:
        console.note(f"{loaded.name}: {len(outcome.unchanged)} diffs unchanged")
    for error in outcome.broken.values():
        console.show_error(error)
    faults = lint() if everything else []
    console.result(*faults)
    if set(outcome.broken) - (set() if everything else {loaded.name}):
        sys.exit(EXIT_CONFLICT)
    sys.exit(EXIT_FAILED if faults else 0)


@click.command("share")
@click.argument("names", nargs=-1, metavar="[PATCH]...")
@click.option("--dry-run", is_flag=True, help="Only say what would be shared.")
@click.option(
    "--context",
    type=click.IntRange(1, 3),
    default=3,
    help="Also try diffs with as few lines around their hunks as this.",
)
@from_dir_option
def share_command(names: tuple[str, ...], dry_run: bool, context: int) -> None:
    """Find the fewest diffs of PATCH that make of every release what it has now, and put them into core/ or extra/.

    Diffs apply at an offset, exactly; what they make must be byte for byte the same. Without names, all patches of
    which several releases have a diff of their own.
    """
    for name in names or share.to_share():
        groups = share.plan(name, context=context)
        for _, users in groups:
            console.result(f"{name}: one diff for {', '.join(release.name for release in users)}")
        if not dry_run:
            share.write(name, groups)
