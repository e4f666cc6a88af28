# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: measure releases, stock beside patched."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import click

from bench import SUITE_VERSION, cells, kept, report, runner, workloads
from bench.plot import draw
from patchset import console, files, git, paths, results, run_command
from patchset.errors import PatchsetError, UsageError
from patchset.release import Release, load, releases
from patchset.series.apply import patched_tree

WORKLOADS = (
    "string",
    "string+reasoning",
    "markup",
    "behind",
    "calls64",
    "prose",
    "prose+reasoning",
    "streams256",
)
QUICK = {"lengths": "1000,4000", "widths": "1,4", "rounds": 3, "budget": 3.0}


def _numbers(_: Any, option: click.Parameter, value: str) -> list[int]:
    """Numbers above 0 with commas between them."""
    try:
        found = [int(word) for word in value.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise click.BadParameter(f"{value!r} is no list such as 1000,4000")
    return found


def _words(known: tuple[str, ...]) -> Any:
    """A callback that splits at commas and refuses what is not known."""

    def split(_: Any, option: click.Parameter, value: str) -> list[str]:
        found = value.split(",")
        if unknown := set(found).difference(known):
            raise click.BadParameter(
                f"no {', '.join(sorted(unknown))}; there are {', '.join(known)}"
            )
        return found

    return split


def _quick(context: click.Context, _: click.Parameter, value: bool) -> bool:
    """Change the defaults."""
    if value:
        context.default_map = QUICK
    return value


def _joined(values: tuple[object, ...]) -> str:
    return ",".join(map(str, values))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option(
    "--quick",
    is_flag=True,
    is_eager=True,
    callback=_quick,
    help="Two lengths, two widths, three rounds: minutes, and no judgement.",
)
@click.option(
    "--lengths",
    callback=_numbers,
    default=_joined(cells.LENGTHS),
    show_default=True,
    help="Tokens of an output.",
)
@click.option(
    "--widths",
    callback=_numbers,
    default=_joined(cells.WIDTHS),
    show_default=True,
    help=f"Tokens of a step; above {cells.LONG} tokens {cells.LONG_WIDTH} alone.",
)
@click.option(
    "--workloads",
    "kinds",
    callback=_words(workloads.NAMES),
    default=_joined(WORKLOADS),
    show_default=True,
    help="Outputs; each also as NAME+reasoning.",
)
@click.option(
    "--paths",
    "ways",
    callback=_words(cells.PATHS),
    default=_joined(cells.PATHS),
    show_default=True,
    help="The parser alone, the whole service.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=25,
    show_default=True,
    help="Samples of each cell; fewer of a long one.",
)
@click.option(
    "--cell-seconds",
    "budget",
    type=click.FloatRange(0.1),
    default=20.0,
    show_default=True,
    help="When a pass is given up; a cell that takes longer has few rounds.",
)
@click.option(
    "--against",
    metavar="REV",
    help="Measure the patches of this revision of the checkout as well.",
)
@click.option(
    "--results",
    "keep",
    is_flag=True,
    help="Keep the figures in results/bench and draw docs/cost.svg of all.",
)
def command(
    names: tuple[str, ...],
    quick: bool,
    lengths: list[int],
    widths: list[int],
    kinds: list[str],
    ways: list[str],
    rounds: int,
    budget: float,
    against: str | None,
    keep: bool,
) -> None:
    """Measure what parsing costs in each RELEASE (all maintained ones without one).

    The stock tree beside the patched one, in turn; times are of the thread, in
    microseconds a token. What counts are ratios within a round.
    """
    if quick and keep:
        raise click.UsageError("the figures of a quick run are not kept")
    plan = cells.grid(ways, kinds, lengths, widths)
    maintained = [one for one in releases() if one.tier == "maintained"]
    for pinned in [load(name) for name in names] or reversed(maintained):
        found = measure(pinned, plan, rounds, budget, against)
        console.table(report.table(pinned.name, found))
        console.result(*report.notes(found))
        if keep:
            run = {
                "release": pinned.name,
                **results.record(SUITE_VERSION, pinned.name, "patched"),
                "against": against,
                "rounds": rounds,
                "cell-seconds": budget,
            }
            console.result(str(kept.keep({**run, "cells": found})))
    if keep:
        runs = {one.name: kept.read(one.name) or {} for one in releases()}
        figures = {name: run.get("cells", []) for name, run in runs.items()}
        console.result(str(draw(figures, kept.plot())))


def measure(
    pinned: Release,
    plan: list[cells.Cell],
    rounds: int,
    budget: float,
    against: str | None,
) -> list[dict[str, Any]]:
    """The measured cells of one release."""
    trees = {"patched": patched_tree(pinned)}
    trees["stock"] = paths.trees_dir(pinned.name) / "stock"
    if against:
        trees["previous"] = previous(pinned.name, against)
    logs = paths.build_dir() / "bench" / "logs" / pinned.name
    with (
        runner.workers(trees, logs) as there,
        console.progress(f"bench of {pinned.name}", len(plan), unit="cells") as step,
    ):
        return runner.measure(plan, there, rounds=rounds, budget=budget, advance=step)


def previous(release: str, revision: str) -> Path:
    """The tree of a release as another revision of this project makes it.

    Raises:
        UsageError: there is no such revision.
        PatchsetError: it does not make the tree.
    """
    root = paths.project_root()
    named = f"{revision}^{{commit}}"
    found = git.attempt(root, "rev-parse", "--verify", "--end-of-options", named)
    if found.returncode:
        raise UsageError(
            f"{revision} is no revision of this checkout",
            "name a commit, tag or branch",
        )
    commit = found.stdout.split()[-1]
    export = paths.build_dir() / "bench" / "against" / commit[:12]
    if not export.is_dir():
        archive = git.run(root, "archive", commit, "patches", "scripts", "noxfile.py")
        with (
            files.atomic_folder(export) as unfinished,
            tarfile.open(fileobj=io.BytesIO(archive)) as tar,
        ):
            tar.extractall(unfinished, filter="data")
    done = subprocess.run(
        [sys.executable, "-m", "patchset", "apply", release],
        env=os.environ
        | {
            "PATCHSET_ROOT": str(export),
            "PATCHSET_BUILD_DIR": str(export / "build"),
            "PATCHSET_DOWNLOADS": str(paths.downloads_dir()),
            "PYTHONPATH": str(export / "scripts"),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PatchsetError(
            f"{revision} cannot make the tree of {release}", "its output is above"
        )
    return Path(done.stdout.split()[-1])


if __name__ == "__main__":
    run_command.run(command)
