# SPDX-License-Identifier: Apache-2.0
"""``lock``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import Target, load
from patchset.commands.options import from_dir_option, release_argument, target_option
from patchset.locks import lock, toolchain_lock
from patchset.series.stock_tree import stock_tree


@click.command()
@release_argument
@target_option
@click.option(
    "--python",
    default=lock.PYTHON,
    show_default=True,
    metavar="X.Y",
    help="The Python of the image; recorded in the lock.",
)
@click.option(
    "--for-build",
    is_flag=True,
    help="Lock what compiles RELEASE instead (torch, CUDA toolkit, CMake): requirements.build.lock.",
)
@click.option("--upgrade", is_flag=True, help="Take the newest versions, also where the lock has others.")
@from_dir_option
def command(release: str | None, target: Target, python: str, for_build: bool, upgrade: bool) -> None:
    """Lock what an image of RELEASE installs: patches/RELEASE/requirements.TARGET.lock, with hashes.

    uv resolves the official wheel's own requirements for Debian 12 on each architecture that has a wheel.
    overrides.TARGET.txt beside the lock replaces requirements that the index cannot meet; the command says
    which of them are no longer needed. The lock names no index.
    """
    if not all(part.isdecimal() for part in python.split(".")) or python.count(".") != 1:
        raise click.BadParameter("a Python version like 3.11", param_hint="--python")
    if for_build:
        pinned = load(release)
        tree = stock_tree(pinned)
        console.result(str(toolchain_lock.make(pinned, tree, upgrade=upgrade)))
        return
    for file in lock.make(load(release), target, python=python, upgrade=upgrade):
        console.result(str(file))
