# SPDX-License-Identifier: Apache-2.0
"""``pin``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.errors import PatchsetError
from patchset.pins import discover


@click.command()
@click.argument("release")
@click.option(
    "--cpu-project",
    default=discover.CPU_PROJECT,
    show_default=True,
    metavar="NAME",
    help="The project on the index that has the CPU wheels.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 when the pin is not complete.")
def command(release: str, cpu_project: str, check: bool) -> None:
    """Pin RELEASE (v0.34.0) from the package index: patches/RELEASE/release.toml, and an empty series.

    Records the file name, sha256 and size in bytes of the source and of the official wheels (of several uploads
    the one with the highest build tag), the commit that the source names, and the torch that the wheel requires.
    A pin that stands there is compared with the index: missing fields are added, a hash is never changed.
    """
    file, added = discover.make(release, cpu_project=cpu_project, check=check)
    if added and check:
        raise PatchsetError(f"{file} lacks: {', '.join(added)}", f"nox -s pin -- {release} adds it")
    console.note(f"  added: {', '.join(added)}" if added else "  the pin is complete and the index agrees")
    console.result(str(file))
