# SPDX-License-Identifier: Apache-2.0
"""``prove``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.base.release import load, releases
from patchset.commands.options import from_dir_option
from patchset.proofs.prove import Verdict, prove


@click.command()
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--all", "everything", is_flag=True, help="All pinned releases; some minutes each.")
@click.option(
    "--patch",
    "only",
    multiple=True,
    metavar="NAME",
    help="Prove this patch only; may be given several times.",
)
@click.option("--every-prefix", is_flag=True, help="Ask for green also on the series that ends at the patch.")
@click.option(
    "--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="How many runs at once."
)
@from_dir_option
def command(
    names: tuple[str, ...], everything: bool, only: tuple[str, ...], every_prefix: bool, jobs: int
) -> None:
    """Run the proof of each patch of each RELEASE (the default one without a name).

    A proof must fail on the series up to its patch and pass on the whole series. Exit status 1, with the
    proof's own output, when one does not.
    """
    wrong: list[Verdict] = []
    count = 0

    def show(verdict: Verdict) -> None:
        nonlocal count
        count += 1
        mark = "ok" if verdict.right else "WRONG"
        console.note(
            f"{mark:6}{verdict.release} {verdict.patch}, {verdict.stage}: {verdict.seen}, expected {verdict.expected}"
        )
        if not verdict.right:
            wrong.append(verdict)

    for release in releases() if everything else [load(name) for name in names or (None,)]:
        prove(release, only=only, every_prefix=every_prefix, jobs=jobs, on_verdict=show)
    for verdict in wrong:
        console.note(f"--- {verdict.release} {verdict.patch}, {verdict.stage}:\n{verdict.output[-4000:]}")
    console.result(f"{count - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(EXIT_FAILED if wrong else 0)
