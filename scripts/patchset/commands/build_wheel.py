# SPDX-License-Identifier: Apache-2.0
"""``build-wheel``"""

from __future__ import annotations

from pathlib import Path

import click

from patchset import console, files
from patchset.commands.options import arch_option, from_dir_option, release_argument, target_option
from patchset.release import Arch, Target, load
from patchset.wheel import overlay, precompiled


@click.command()
@release_argument
@target_option
@arch_option
@click.option(
    "--mode",
    type=click.Choice(["overlay", "precompiled"]),
    default="overlay",
    show_default=True,
    help="How it is built: the official wheel with files replaced, or vLLM's own backend with the official binaries.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder for the wheel.")
@from_dir_option
def command(
    release: str | None, target: Target, arch: Arch, mode: str, out: Path | None, from_dir: Path | None
) -> None:
    """Build the patched wheel of RELEASE. The last lines are its path, size and sha256.

    An overlay takes seconds and no compiler, and is byte for byte repeatable. A precompiled wheel takes two minutes
    and 3 GB of disk space while it is built. A patch that a mode cannot carry is refused by name.
    """
    builder = {"overlay": overlay.build, "precompiled": precompiled.build}[mode]
    wheel = builder(load(release), target, arch, from_dir=from_dir, out=out)
    console.result(f"wheel   {wheel}")
    console.result(f"size    {wheel.stat().st_size / 1e6:.1f} MB")
    console.result(f"sha256  {files.sha256_file(wheel)}")
