# SPDX-License-Identifier: Apache-2.0
"""Inputs of a release: ``pin``, ``lock``, ``fetch``."""

from __future__ import annotations

import click

from patchset import console
from patchset.commands.options import arch_option, from_dir_option, release_argument
from patchset.errors import PatchsetError
from patchset.image import base
from patchset.inputs import fetch, lock, pin
from patchset.release import Arch, Target, load
from patchset.series.stock_tree import stock_tree


@click.command("pin")
@click.argument("release")
@click.option(
    "--cpu-project",
    default=pin.CPU_PROJECT,
    metavar="NAME",
    help="The project on the index that has the CPU wheels.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if fields are missing."
)
def pin_command(release: str, cpu_project: str, check: bool) -> None:
    """Pin RELEASE (v0.34.0) from the package index in patches/RELEASE/release.toml.

    Records file name, sha256 and size of the source and of the official wheels (of
    several uploads the one with the highest build tag), and the commit and the torch
    that the source names. An existing pin is compared with the index: missing fields
    are added, a hash is never changed. The official image's digest is added if its
    registry answers.
    """
    file, added = pin.make(release, cpu_project=cpu_project, check=check)
    if added and check:
        raise PatchsetError(
            f"{file} lacks: {', '.join(added)}", f"nox -s pin -- {release} adds it"
        )
    if added:
        console.note(f"  added: {', '.join(added)}")
    else:
        console.note("  the pin is complete and the index agrees")
    if not check and (digest := base.pin_digest(file)):
        console.note(f"  added: the digest of the official image, {digest}")
    console.result(file)


@click.command("lock")
@release_argument
@click.option(
    "--target",
    type=click.Choice(["cuda", "cpu", "build"]),
    default="cuda",
    help="The image to lock for; build: the compiler's environment of --mode source.",
)
@arch_option
@click.option("--upgrade", is_flag=True, help="Take the newest versions.")
@from_dir_option
def lock_command(
    release: str | None, target: lock.Use, arch: Arch, upgrade: bool
) -> None:
    """Lock what an image of RELEASE installs, in patches/RELEASE/pylock.TARGET-ARCH.toml.

    uv resolves the official wheel's requirements for Debian 12. overrides.TARGET.txt
    beside the lock replaces requirements that the index cannot meet,
    constraints.TARGET.txt narrows others. The lock (PEP 751) has one wheel for each
    package, by sha256, and names no index.
    """
    pinned = load(release)
    if target == "build":
        made = lock.make_build(pinned, stock_tree(pinned), arch, upgrade=upgrade)
    else:
        made = lock.make(pinned, target, arch, upgrade=upgrade)
    console.result(made)


@click.command("fetch")
@release_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(["cuda", "cpu"]),
    help="Also the official wheel for this target.",
)
@arch_option
@from_dir_option
def fetch_command(release: str | None, targets: tuple[Target, ...], arch: Arch) -> None:
    """Download the source of RELEASE, and wheels by --target, and verify their sha256.

    They come from the package indexes that pip is configured for, or from --from-dir.
    """
    console.result(*fetch.release_inputs(load(release), targets=targets, arch=arch))
