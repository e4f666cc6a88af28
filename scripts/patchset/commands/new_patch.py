# SPDX-License-Identifier: Apache-2.0
"""``new-patch``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import load
from patchset.commands.options import from_dir_option
from patchset.series.new_patch import new_patch


@click.command()
@click.argument("name")
@click.option("--release", metavar="RELEASE", help="The release it is for; else the default one.")
@from_dir_option
def command(name: str, release: str | None) -> None:
    """Set up a new patch NAME: the tree to edit, a header to fill in, and a proof that fails until it is written.

    The patch comes last in the series. An unfilled header (<...>) is refused by refresh, and the unwritten proof
    by proofs.
    """
    loaded = load(release)
    made = new_patch(name, loaded)
    console.result(str(made.proof))
    console.note(
        f"next: edit in {made.tree}\n"
        f"      git add --all && git commit -e -F .git/{made.message.name}   # fill the header in\n"
        f"      nox -s refresh -- {loaded.name}   # writes {made.name}.diff, last in the series\n"
        f"      write the proof, then nox -s proofs -- {loaded.name} --patch {made.name}"
    )
