# SPDX-License-Identifier: Apache-2.0
"""``python -m patchset COMMAND``: the commands, and how they are found.

A command imports what it needs when it runs, so that each starts quickly.
"""

from __future__ import annotations

import importlib
import sys

import click

from patchset import console, run_command
from patchset.commands.options import from_dir_option, release_argument
from patchset.errors import EXIT_CONFLICT, EXIT_FAILED, UsageError
from patchset.release import load, releases

#: Commands that live in a module of their own; ``build-wheel`` is the function
#: ``build_wheel_command``.
MODULES = {
    "pin": "inputs",
    "lock": "inputs",
    "fetch": "inputs",
    "build-wheel": "artifacts",
    "verify": "artifacts",
    "build-image": "images",
    "publish": "images",
    "reproduce": "images",
    "doctor": "installed",
}


class CommandGroup(click.Group):
    """A group that imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *MODULES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return self.commands.get(cmd_name)
        module = importlib.import_module(f"patchset.commands.{MODULES[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
def cli() -> None:
    """Build patched vLLM wheels and images from pinned releases.

    Exit status: 0 done; 1 failed or at fault; 2 wrong command line; 3 a patch
    conflicts; 4 a patch is already present; 5 a program is missing; 6 not found on an
    index or registry, or no answer; 7 a disk is full; 130 interrupted.
    """


@cli.command("lint")
def lint_command() -> None:
    """Check the pins, series and diffs below patches/.

    Needs no network and takes a second. Exit status 1, and a line for each fault.
    """
    from patchset.series.lint import lint

    faults = lint()
    console.result(*faults)
    console.note(f"lint: {len(faults)} faults" if faults else "lint: patches/ is well")
    sys.exit(EXIT_FAILED if faults else 0)


@cli.command("apply")
@release_argument
@click.option(
    "--upto", metavar="N|NAME", help="Stop after N patches (0: none) or after NAME."
)
@click.option(
    "--without", metavar="NAME", multiple=True, help="Leave this patch out; repeatable."
)
@click.option("--discard", is_flag=True, help="Throw away work that no diff has.")
@from_dir_option
def apply_command(
    release: str | None, upto: str | None, without: tuple[str, ...], discard: bool
) -> None:
    """Make the patched tree of RELEASE: its source, and a commit for each patch.

    The tree is build/trees/RELEASE/patched. Patches apply by git am, at an offset if
    need be and never with fuzz, and the series must make what patched-files.sha256
    pins. Exit status 3 for a conflict, which git am waits at; 4 for a patch whose
    change the source has already.
    """
    from patchset.series.apply import patched_tree

    tree = patched_tree(load(release), upto=upto, without=without, discard=discard)
    console.result(tree)


@cli.command("refresh")
@release_argument
@click.option("--all", "everything", is_flag=True, help="Pin all releases, then lint.")
@from_dir_option
def refresh_command(release: str | None, everything: bool) -> None:
    """Write the commits of RELEASE's patched tree back as its diffs and series.

    Commit first. A commit that 'apply' made goes back to its own diff; a new commit
    becomes a new diff of the release. Then patched-files.sha256, which pins what a
    series makes, is written; after an edit of patches/files, core or extra by hand,
    --all does so for every release. Exit status 3 if a series does not apply.
    """
    from patchset.series.export import refresh
    from patchset.series.lint import lint

    if release and everything:
        raise UsageError("--all takes no release")
    outcome = refresh(load(release), everything=everything)
    console.result(*outcome.lines)
    if not outcome.lines:
        console.note("nothing changed")
    for error in outcome.broken.values():
        console.show_error(error)
    faults = lint() if everything else []
    console.result(*faults)
    if outcome.broken:
        sys.exit(EXIT_CONFLICT)
    sys.exit(EXIT_FAILED if faults else 0)


@cli.command("export")
@release_argument
@from_dir_option
def export_command(release: str | None) -> None:
    """Write one patch of RELEASE's whole series for an installed vLLM, with sums.

    build/export/vllm-VERSION-mtp.N.patch, and the sums of the files before and after.
    docs/patching.md shows how patch and sha256sum use them.
    """
    from patchset.series.export import combined

    console.result(*combined(load(release)))


@cli.command("rebase")
@click.argument("release")
@click.option("--from", "old", metavar="RELEASE", help="The series; else the nearest.")
@click.option("--continue", "resume", is_flag=True, help="Go on after a conflict.")
@click.option(
    "--restart", is_flag=True, help="Start over; discards resolved conflicts."
)
@click.option("--replace", is_flag=True, help="Replace the series that RELEASE has.")
@from_dir_option
def rebase_command(
    release: str, old: str | None, resume: bool, restart: bool, replace: bool
) -> None:
    """Port a series to RELEASE, newer or older: pin it, and write patches/RELEASE.

    git am -3 merges each patch into the new source. A conflict stops it there (exit
    status 3): resolve it, then --continue. A patch that the source has already is
    dropped, and its proofs must pass on the stock tree from then on. Nothing that was
    edited below patches/RELEASE meanwhile is overwritten.
    """
    from patchset.series.rebase import rebase

    report = rebase(release, old, resume=resume, restart=restart, replace=replace)
    console.result(*report)


@cli.command("drift")
@click.argument("target", required=False, metavar="[RELEASE|DIR|GIT-REF]")
@click.option(
    "--series", "name", metavar="RELEASE", help="The series; else the default."
)
@click.option("--remote", metavar="URL", help="The repository of a git ref.")
@click.option("--no-proofs", is_flag=True, help="Neither imports nor proofs; seconds.")
@click.option("--jobs", default=2, type=click.IntRange(1, 64), help="Runs at once.")
@from_dir_option
def drift_command(
    target: str | None, name: str | None, remote: str | None, no_proofs: bool, jobs: int
) -> None:
    """Try the series on a source: a release, a source folder, or an upstream git ref.

    The default is the newest release on the package index. Each patch is merged as
    'rebase' does; then every module of the series is imported, and the proofs run on
    the patched and on the stock source. Exit status 1 if something is to be done.
    """
    from patchset.series.drift import drift

    faults = drift(target, load(name), remote=remote, prove=not no_proofs, jobs=jobs)
    sys.exit(EXIT_FAILED if faults else 0)


@cli.command("prove")
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--all", "everything", is_flag=True, help="All pinned releases.")
@click.option("--patch", "only", multiple=True, metavar="NAME", help="This patch only.")
@click.option("--every-prefix", is_flag=True, help="Also right behind each patch.")
@click.option("--jobs", default=2, type=click.IntRange(1, 64), help="Runs at once.")
@from_dir_option
def prove_command(
    names: tuple[str, ...],
    everything: bool,
    only: tuple[str, ...],
    every_prefix: bool,
    jobs: int,
) -> None:
    """Run the proofs of the patches of each RELEASE (default: the default one).

    A proof must fail on the series up to its patch and pass on the whole series. Exit
    status 1, with the proof's own output, if one does not.
    """
    from patchset import proofs

    chosen = releases() if everything else [load(name) for name in names or (None,)]
    seen = [
        verdict
        for release in chosen
        for verdict in proofs.prove(
            release, only=only, every_prefix=every_prefix, jobs=jobs
        )
    ]
    wrong = [verdict for verdict in seen if not verdict.right]
    for verdict in wrong:
        console.note(f"--- {verdict}:\n{verdict.output[-4000:]}")
    console.result(f"{len(seen) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(EXIT_FAILED if wrong else 0)


def main(arguments: list[str] | None = None) -> None:
    """Run one command of the tool."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # Before Ctrl-C is an exception: pydantic turns one that comes while a model is
    # defined into an error of its own.
    for name in arguments[:1]:
        cli.get_command(click.Context(cli), name)
    run_command.run(cli, arguments)
