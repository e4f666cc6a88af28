# SPDX-License-Identifier: Apache-2.0
"""What a release is made of: ``pin``, ``lock``, ``fetch``."""

from __future__ import annotations

import click

from patchset import console
from patchset.commands.options import arch_option, from_dir_option, release_argument, target_option
from patchset.downloads import fetch
from patchset.errors import PatchsetError
from patchset.locks import lock, toolchain_lock
from patchset.pins import discover
from patchset.release import Arch, Target, load
from patchset.series.stock_tree import stock_tree


@click.command("pin")
@click.argument("release")
@click.option(
    "--cpu-project",
    default=discover.CPU_PROJECT,
    metavar="NAME",
    help="The project on the index that has the CPU wheels.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 when the pin is not complete.")
def pin_command(release: str, cpu_project: str, check: bool) -> None:
    """Pin RELEASE (v0.34.0) from the package index: patches/RELEASE/release.toml, and an empty series.

    Records the file name, sha256 and size in bytes of the source and of the official wheels (of several uploads
    the one with the highest build tag), the commit that the source names, and the torch that the wheel requires.
    A pin that stands there is compared with the index: missing fields are added, a hash is never changed.
    """
    file, added = discover.make(release, cpu_project=cpu_project, check=check)
    if added and check:
        raise PatchsetError(f"{file} lacks: {', '.join(added)}", f"nox -s pin -- {release} adds it")
    console.note(f"  added: {', '.join(added)}" if added else "  the pin is complete and the index agrees")
    console.result(file)


@click.command("lock")
@release_argument
@target_option
@click.option(
    "--python", default=lock.PYTHON, metavar="X.Y", help="The Python of the image; recorded in the lock."
)
@click.option(
    "--for-build",
    is_flag=True,
    help="Lock what compiles RELEASE instead (torch, CUDA toolkit, CMake): requirements.build.lock.",
)
@click.option("--upgrade", is_flag=True, help="Take the newest versions, also where the lock has others.")
@from_dir_option
def lock_command(release: str | None, target: Target, python: str, for_build: bool, upgrade: bool) -> None:
    """Lock what an image of RELEASE installs: patches/RELEASE/requirements.TARGET.lock, with hashes.

    uv resolves the official wheel's own requirements for Debian 12 on each architecture that has a wheel.
    overrides.TARGET.txt beside the lock replaces requirements that the index cannot meet; the command says
    which of them are no longer needed. The lock names no index.
    """
    if not all(part.isdecimal() for part in python.split(".")) or python.count(".") != 1:
        raise click.BadParameter("a Python version like 3.11", param_hint="--python")
    pinned = load(release)
    if for_build:
        made = [toolchain_lock.make(pinned, stock_tree(pinned), upgrade=upgrade)]
    else:
        made = lock.make(pinned, target, python=python, upgrade=upgrade)
    console.result(*made)


@click.command("fetch")
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
def fetch_command(release: str | None, targets: tuple[Target, ...], arch: Arch) -> None:
    """Download the inputs of RELEASE (its source, and wheels with --target) and verify them by sha256.

    They come through the package index that pip is configured for, or from --from-dir.
    """
    console.result(*fetch.release_inputs(load(release), targets=targets, arch=arch))
