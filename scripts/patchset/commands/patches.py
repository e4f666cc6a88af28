# SPDX-License-Identifier: Apache-2.0
"""Patches that are proven, ported and written: ``prove``, ``rebase``, ``drift``, ``bisect``, ``new-patch``, ``upstream``."""

from __future__ import annotations

import sys

import click

from patchset import console
from patchset.commands.options import from_dir_option, release_argument
from patchset.errors import EXIT_CONFLICT, EXIT_FAILED, UsageError
from patchset.proofs import bisect, prove
from patchset.rebase import run
from patchset.rebase.drift import UPSTREAM, drift
from patchset.release import load, releases
from patchset.series import for_upstream
from patchset.series.apply import CONFLICT_MESSAGE
from patchset.series.new_patch import new_patch


@click.command("prove")
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
@click.option("--jobs", default=2, type=click.IntRange(1, 64), help="How many runs at once.")
@from_dir_option
def prove_command(
    names: tuple[str, ...], everything: bool, only: tuple[str, ...], every_prefix: bool, jobs: int
) -> None:
    """Run the proof of each patch of each RELEASE (the default one without a name).

    A proof must fail on the series up to its patch and pass on the whole series. Exit status 1, with the
    proof's own output, when one does not.
    """
    seen: list[prove.Verdict] = []

    def show(verdict: prove.Verdict) -> None:
        seen.append(verdict)
        console.note(
            f"{'ok' if verdict.right else 'WRONG':6}{verdict.release} {verdict.patch}, {verdict.stage}: "
            f"{verdict.seen}, expected {verdict.expected}"
        )

    for release in releases() if everything else [load(name) for name in names or (None,)]:
        prove.prove(release, only=only, every_prefix=every_prefix, jobs=jobs, on_verdict=show)
    wrong = [verdict for verdict in seen if not verdict.right]
    for verdict in wrong:
        console.note(f"--- {verdict.release} {verdict.patch}, {verdict.stage}:\n{verdict.output[-4000:]}")
    console.result(f"{len(seen) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(EXIT_FAILED if wrong else 0)


@click.command("rebase")
@click.argument("release")
@click.option(
    "--from", "old", metavar="RELEASE", help="Whose series is ported; else the nearest one that has any."
)
@click.option("--dry-run", is_flag=True, help="Only say what would come out; change nothing.")
@click.option("--continue", "resume", is_flag=True, help="Resume after a conflict was resolved or skipped.")
@click.option("--restart", is_flag=True, help="Start over; throws away conflicts that were resolved.")
@click.option("--replace", is_flag=True, help="Replace the series that RELEASE has already.")
@from_dir_option
def rebase_command(
    release: str, old: str | None, dry_run: bool, resume: bool, restart: bool, replace: bool
) -> None:
    """Port a series to RELEASE, newer or older: pin it, and write patches/RELEASE.

    Each patch is ported as it stands, at an offset, or by a three-way merge; one that upstream has is dropped,
    and its proof must pass on the stock tree from then on. A conflict stops the run in an ordinary git
    cherry-pick (exit status 3). Nothing below patches/ changes before the end. The report: build/rebase/RELEASE.
    --from RELEASE itself refreshes its series after a diff in patches/core or patches/extra changed.
    """
    options = run.Options(old=old, resume=resume, restart=restart, replace=replace)
    report = run.dry_run(release, options) if dry_run else run.rebase(release, options)
    report.show(dry=dry_run)
    if not dry_run:
        console.result(run.work_folder(report.new) / "report.md")
    sys.exit(EXIT_CONFLICT if report.conflicts else 0)


@click.command("drift")
@click.argument("target", required=False, metavar="[RELEASE|DIR|GIT-REF]")
@click.option(
    "--series", "name", metavar="RELEASE", help="Whose series is tried; else the default release's."
)
@click.option("--remote", default=UPSTREAM, metavar="URL", help="Where a git ref is looked up.")
@click.option("--no-proofs", is_flag=True, help="Do not run the proofs on the stock tree; takes seconds.")
@click.option("--jobs", default=2, type=click.IntRange(1, 64), help="Proofs at once.")
@from_dir_option
def drift_command(target: str | None, name: str | None, remote: str, no_proofs: bool, jobs: int) -> None:
    """Ask whether the series fits a source: a release, a folder with a source tree, or a git ref of upstream's.

    Without an argument it is the newest release on the package index. Exit status 0: it fits, by itself or by
    three-way merges, and every patch is still needed; 1: a patch conflicts, is already present, or its proof
    passes on the stock tree. Nothing is changed.
    """
    found = drift(target, load(name), remote=remote, proofs=not no_proofs, jobs=jobs)
    for patch, outcome in found.outcomes:
        seen = ", ".join(found.on_stock.get(proof, "not run") for proof in patch.header.proofs)
        console.result(f"{outcome.status:20} {patch.name} (proof on stock: {seen})")
    faults = found.faults()
    console.result(*faults)
    verdict = f"{len(faults)} things to do" if faults else "it fits"
    console.result(f"series of {found.series} on {found.source}: {verdict}")
    sys.exit(EXIT_FAILED if faults else 0)


@click.command("bisect")
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
def bisect_command(case: str, release: str | None, by_releases: bool, stock: bool, every: bool) -> None:
    """Find the first patch of RELEASE's series at which CASE changes its verdict.

    CASE is a case of the conformance suite, by name. The stock tree is judged first, then each longer part of the
    series; each run takes as long as vLLM's import and the case do, some ten seconds.
    """
    if by_releases:
        if release:
            raise UsageError("--releases takes all of them, and no RELEASE")
        steps = bisect.by_release(releases(), stock=stock)
    elif stock:
        raise UsageError("--stock goes with --releases")
    else:
        steps = bisect.by_patch(load(release))
    change = bisect.first_change(steps, case, every=every)
    if change is None:
        console.result(f"{case}: the same verdict at every step")
    else:
        before, after = change
        console.result(
            f"{case} {'passes' if after.passed else 'fails'} from {after.step} on ({before.step}: "
            f"{before.right}/{before.all}, {after.step}: {after.right}/{after.all})"
        )


@click.command("new-patch")
@click.argument("name")
@click.option("--release", metavar="RELEASE", help="The release it is for; else the default one.")
@from_dir_option
def new_patch_command(name: str, release: str | None) -> None:
    """Set up a new patch NAME: the tree to edit, a header to fill in, and a proof that fails until it is written.

    The patch comes last in the series. An unfilled header (<...>) is refused by refresh, and the unwritten proof
    by proofs.
    """
    loaded = load(release)
    name = name.removesuffix(".diff")
    tree, proof = new_patch(name, loaded)
    console.result(proof)
    console.note(
        f"next: edit in {tree}\n"
        f"      git add --all && git commit -e -F .git/{CONFLICT_MESSAGE}   # fill the header in\n"
        f"      nox -s refresh -- {loaded.name}   # writes {name}.diff, last in the series\n"
        f"      write the proof, then nox -s proofs -- {loaded.name} --patch {name}"
    )


@click.command("upstream")
@release_argument
@click.option("--name", required=True, help="Who signs the changes off.")
@click.option("--email", required=True, help="Their address.")
@click.option(
    "--check/--no-check",
    default=True,
    show_default=False,
    help="Also apply them, and run vLLM's own linters.",
)
@from_dir_option
def upstream_command(release: str | None, name: str, email: str, check: bool) -> None:
    """Write the series of RELEASE as vLLM takes changes: build/upstream/RELEASE, for git am.

    Each patch becomes a signed-off change, the smallest first, with the proofs that vLLM's own tests can hold.
    cover-letter.md lists them, says which proofs stay here and why, and what vLLM asks of whoever sends a change.
    """
    loaded = load(release)
    folder = for_upstream.write(loaded, name, email)
    if check:
        for_upstream.check(loaded, folder)
    console.result(folder)
