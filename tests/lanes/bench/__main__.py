# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: measure releases, stock beside patched."""

import click

import results
from bench import SUITE_VERSION, cells, kept, report, runner, workloads
from patchset import console, paths, run_command
from patchset.release import load, releases
from patchset.series.apply import patched_tree

WORKLOADS = (
    "string",
    "string+reasoning",
    "markup",
    "behind",
    "calls64",
    "prose",
    "prose+reasoning",
    "thought+reasoning",
    "streams64",
)
#: Lengths, widths, rounds and seconds of a quick run.
QUICK = ((1_000, 4_000), (1, 4), 3, 3.0)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option(
    "--quick",
    is_flag=True,
    help="Two lengths, two widths, three rounds: minutes, and no judgement.",
)
@click.option(
    "--length",
    "lengths",
    type=click.IntRange(1),
    multiple=True,
    default=cells.LENGTHS,
    show_default=True,
    help="Tokens of an output; this and the next three may be repeated.",
)
@click.option(
    "--width",
    "widths",
    type=click.IntRange(1),
    multiple=True,
    default=cells.WIDTHS,
    show_default=True,
    help=f"Tokens of a step; above {cells.LONG} tokens {cells.LONG_WIDTH} alone.",
)
@click.option(
    "--workload",
    "kinds",
    type=click.Choice(workloads.NAMES),
    multiple=True,
    default=WORKLOADS,
    show_default=True,
    help="An output.",
)
@click.option(
    "--path",
    "ways",
    type=click.Choice(cells.PATHS),
    multiple=True,
    default=cells.PATHS,
    show_default=True,
    help="The parser alone, or the whole API process by surface.",
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
    "--results",
    "keep",
    is_flag=True,
    help="Keep the figures in results/bench.",
)
def command(
    names: tuple[str, ...],
    quick: bool,
    lengths: tuple[int, ...],
    widths: tuple[int, ...],
    kinds: tuple[str, ...],
    ways: tuple[str, ...],
    rounds: int,
    budget: float,
    keep: bool,
) -> None:
    """Measure what parsing costs in each RELEASE, by default all maintained ones.

    The stock tree beside the patched one, in turn; times are of the thread, in
    microseconds a token. What counts are ratios within a round.
    """
    if quick and keep:
        raise click.UsageError("the figures of a quick run are not kept")
    if quick:
        lengths, widths, rounds, budget = QUICK
    plan = cells.grid(ways, kinds, lengths, widths)
    maintained = [one for one in releases() if one.tier == "maintained"]
    for pinned in [load(name) for name in names] or reversed(maintained):
        stock = paths.trees_dir(pinned.name) / "stock"
        trees = {"patched": patched_tree(pinned), "stock": stock}
        logs = paths.build_dir() / "bench" / "logs" / pinned.name
        step = console.progress(f"bench of {pinned.name}", len(plan), unit="cells")
        with runner.workers(trees, logs) as there:
            found = runner.measure(
                plan, there, rounds=rounds, budget=budget, advance=step
            )
        console.result(report.table(pinned.name, found), *report.notes(found))
        if keep:
            run = {
                "release": pinned.name,
                **results.record(SUITE_VERSION, pinned.name, "patched"),
                "rounds": rounds,
                "cell-seconds": budget,
            }
            console.result(str(kept.keep({**run, "cells": found})))


if __name__ == "__main__":
    run_command.run(command)
