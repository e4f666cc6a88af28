# SPDX-License-Identifier: Apache-2.0
"""``upstream``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.release import load
from patchset.commands.options import from_dir_option, release_argument
from patchset.series import for_upstream


@click.command()
@release_argument
@click.option("--name", required=True, help="Who signs the changes off.")
@click.option("--email", required=True, help="Their address.")
@click.option("--check/--no-check", default=True, help="Also apply them, and run vLLM's own linters.")
@from_dir_option
def command(release: str | None, name: str, email: str, check: bool) -> None:
    """Write the series of RELEASE as vLLM takes changes: build/upstream/RELEASE, for git am.

    Each patch becomes a signed-off change, the smallest first, with the proofs that vLLM's own tests can hold.
    cover-letter.md lists them, says which proofs stay here and why, and what vLLM asks of whoever sends a change.
    """
    loaded = load(release)
    folder = for_upstream.write(loaded, name, email)
    if check:
        for_upstream.check(loaded, folder)
    console.result(str(folder))
