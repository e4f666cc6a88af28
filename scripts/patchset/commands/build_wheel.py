# SPDX-License-Identifier: Apache-2.0
"""``build-wheel``"""

from __future__ import annotations

from pathlib import Path

import click

from patchset import console, files
from patchset.commands.options import arch_option, from_dir_option, release_argument, target_option
from patchset.release import Arch, Target, load


@click.command()
@release_argument
@click.option(
    "--mode",
    type=click.Choice(["overlay", "precompiled"]),
    default="overlay",
    show_default=True,
    help="overlay: replace the changed files in the official wheel (seconds). precompiled: run vLLM's own "
    "build backend over the patched tree, with the official wheel's binaries (minutes).",
)
@target_option
@arch_option
@from_dir_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Put the wheel into this folder instead of build/wheels/RELEASE/TARGET.",
)
def command(
    release: str | None, mode: str, target: Target, arch: Arch, from_dir: Path | None, out: Path | None
) -> None:
    """Build the patched wheel of RELEASE (the default release when none is named).

    The wheel is a distribution called vllm, of version RELEASE+mtp.N, with the official wheel's tags. The last
    lines are its path, its size in bytes and its sha256. A patch that needs a compiler is refused.
    """
    pin = load(release)
    if mode == "overlay":
        from patchset.wheel import overlay

        wheel = overlay.build(pin, target, arch, from_dir=from_dir, out_dir=out)
    else:
        from patchset.wheel import precompiled

        wheel = precompiled.build(pin, target, arch, from_dir=from_dir, out_dir=out)
    console.result(f"wheel   {wheel}")
    console.result(f"size    {wheel.stat().st_size}")
    console.result(f"sha256  {files.sha256_file(wheel)}")
