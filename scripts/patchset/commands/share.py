# SPDX-License-Identifier: Apache-2.0
"""``share``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.commands.options import from_dir_option
from patchset.results import tables
from patchset.series import share


@click.command()
@click.argument("names", nargs=-1, metavar="[PATCH]...")
@click.option("--dry-run", is_flag=True, help="Only say what would be shared.")
@click.option(
    "--context", type=click.IntRange(1, 3), default=3, show_default=True,
    help="Also try diffs with as few lines around their hunks as this.",
)  # fmt: skip
@from_dir_option
def command(names: tuple[str, ...], dry_run: bool, context: int) -> None:
    """Find the fewest diffs of PATCH that make of every release what it has now, and put them into patches/common.

    Diffs apply at an offset, exactly; what they make must be byte for byte the same. Without names, all patches of
    which several releases have a diff of their own.
    """
    for name in names or share.to_share():
        groups = share.plan(name, context=context)
        for group in groups:
            console.result(f"{name}: one diff for {', '.join(release.name for release in group.users)}")
        if not dry_run:
            share.write(name, groups)
    if not dry_run:
        tables.write()
