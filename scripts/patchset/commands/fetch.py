# SPDX-License-Identifier: Apache-2.0
"""``fetch``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import Arch, Target, load
from patchset.commands.options import arch_option, from_dir_option, release_argument
from patchset.downloads import fetch


@click.command()
@release_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(["cuda", "cpu"]),
    help="The official wheel for this target too.",
)
@arch_option
@from_dir_option
def command(release: str | None, targets: tuple[Target, ...], arch: Arch) -> None:
    """Download the inputs of RELEASE (its source, and wheels with --target) and verify them by sha256.

    They come through the package index that pip is configured for, or from --from-dir.
    """
    for file in fetch.release_inputs(load(release), targets=targets, arch=arch):
        console.result(str(file))
