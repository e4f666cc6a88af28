# SPDX-License-Identifier: Apache-2.0
"""``apply``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import load
from patchset.commands.options import from_dir_option, release_argument
from patchset.series.apply import patched_tree


@click.command()
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
def command(release: str | None, upto: str | None, without: tuple[str, ...], discard: bool) -> None:
    """Make the patched tree of RELEASE: its source, and one commit for each patch of its series.

    The tree is build/trees/RELEASE/patched. A patch applies with its exact context, at an offset if need be and never
    with fuzz, and the whole series must make what patched-files.sha256 pins, or the command stops: exit status 3 for
    a conflict, 4 for a patch whose change the source has already.
    """
    tree = patched_tree(load(release), upto=upto, without=without, discard=discard)
    console.result(str(tree))
