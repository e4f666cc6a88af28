# SPDX-License-Identifier: Apache-2.0
"""``patch-installed``"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.commands.options import from_dir_option
from patchset.install import in_place


@click.command()
@click.argument("action", type=click.Choice(["status", "in", "out"]))
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The interpreter of the environment in which vLLM is installed.",
)
@from_dir_option
def command(action: str, python: Path) -> None:
    """Patch an installed vLLM in place (in), take the patches out again (out), or say what is live (status).

    For environments that cannot be rebuilt. Refuses when a file to be changed is not the pinned release's. Stop the
    server first: a running process keeps what it has loaded.

    'status' exits with 0 when the whole series is live, with 1 when it is not.
    """
    found = in_place.find(python)
    if action == "in":
        in_place.put_in(found)
    elif action == "out":
        in_place.take_out(found)
    for path, kind in found.kinds().items():
        console.result(f"{kind.value:8} {path}")
    name = found.patched.pin.name
    if found.live:
        console.result(f"{name} in {found.site}: the series {found.patched.digest[:12]} is live")
    elif found.stock:
        console.result(f"{name} in {found.site}: stock")
    else:
        console.result(f"{name} in {found.site}: neither stock nor patched as a whole")
    sys.exit(EXIT_FAILED if action == "status" and not found.live else 0)
