# SPDX-License-Identifier: Apache-2.0
"""``bisect``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.base.errors import UsageError
from patchset.base.release import load, releases
from patchset.commands.options import from_dir_option, release_argument
from patchset.proofs.bisect import Verdict, by_patch, by_release


@click.command()
@click.argument("case")
@release_argument
@click.option(
    "--releases",
    "by_releases",
    is_flag=True,
    help="Compare the releases, oldest first, not the patches of one.",
)
@click.option("--stock", is_flag=True, help="With --releases: the stock trees, not the patched ones.")
@click.option("--all", "every", is_flag=True, help="Judge every step, also after the first change.")
@from_dir_option
def command(case: str, release: str | None, by_releases: bool, stock: bool, every: bool) -> None:
    """Find the first patch of RELEASE's series at which CASE changes its verdict.

    CASE is a case of the conformance suite, by name. The stock tree is judged first, then each longer part of the
    series; each run takes as long as vLLM's import and the case do, some ten seconds.
    """

    def show(verdict: Verdict) -> None:
        console.note(f"  {verdict.text()}")

    if by_releases:
        if release:
            raise UsageError("--releases takes all of them, and no RELEASE")
        change = by_release(releases(), case, stock=stock, every=every, on_verdict=show)
    elif stock:
        raise UsageError("--stock goes with --releases")
    else:
        change = by_patch(load(release), case, every=every, on_verdict=show)
    if change is None:
        console.result(f"{case}: the same verdict at every step")
    else:
        before, after = change
        words = "fails" if not after.passed else "passes"
        console.result(
            f"{case} {words} from {after.step} on ({before.step}: {before.right}/{before.all}, "
            f"{after.step}: {after.right}/{after.all})"
        )
