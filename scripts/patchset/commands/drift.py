# SPDX-License-Identifier: Apache-2.0
"""``drift``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.base.release import load
from patchset.commands.options import from_dir_option
from patchset.rebase.drift import UPSTREAM, drift


@click.command()
@click.argument("target", required=False, metavar="[RELEASE|DIR|GIT-REF]")
@click.option(
    "--series", "name", metavar="RELEASE", help="Whose series is tried; else the default release's."
)
@click.option(
    "--remote", default=UPSTREAM, show_default=True, metavar="URL", help="Where a git ref is looked up."
)
@click.option("--no-proofs", is_flag=True, help="Do not run the proofs on the stock tree; takes seconds.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="Proofs at once.")
@from_dir_option
def command(target: str | None, name: str | None, remote: str, no_proofs: bool, jobs: int) -> None:
    """Ask whether the series fits a source: a release, a folder with a source tree, or a git ref of upstream's.

    Without an argument it is the newest release on the package index. Exit status 0: it fits, by itself or by
    three-way merges, and every patch is still needed; 1: a patch conflicts, is already present, or its proof
    passes on the stock tree. Nothing is changed.
    """
    found = drift(target, load(name), remote=remote, proofs=not no_proofs, jobs=jobs)
    for outcome in found.outcomes:
        seen = ", ".join(found.on_stock.get(proof, "not run") for proof in outcome.patch.header.proofs)
        console.result(f"{outcome.status:20} {outcome.patch.name} (proof on stock: {seen})")
    faults = found.faults()
    for fault in faults:
        console.result(fault)
    verdict = f"{len(faults)} things to do" if faults else "it fits"
    console.result(f"series of {found.series} on {found.source}: {verdict}")
    sys.exit(EXIT_FAILED if faults else 0)
