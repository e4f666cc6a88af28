# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: measures releases, stock beside patched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bench import (
    SUITE_VERSION,
    cells,
    kept,
    places,
    report,
    runner,
    subjects,
    workloads,
)
from bench.plot import draw, draw_releases
from patchset import console, files, results, run_command
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.release import releases as all_releases

# Memory comes before the service is started: from then on the release counts its calls, which allocates as well.
PATHS: tuple[cells.Path, ...] = (
    "parser",
    "first-delta",
    "memory",
    "serving",
    "serving-memory",
)

#: Without --workloads: a string argument and prose with and without reasoning, the others without.
DEFAULT_WORKLOADS = (
    "string",
    "string+reasoning",
    "markup",
    "calls64",
    "prose",
    "prose+reasoning",
    "streams256",
)

QUICK: dict[str, Any] = {
    "lengths": (1_000, 4_000),
    "widths": (1, 4),
    "rounds": 3,
    "budget": 3.0,
}


class Listed(click.ParamType[tuple[Any, ...]]):
    """Several values in one word, comma-separated."""

    name = "list"

    def __init__(self, kind: type = str) -> None:
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """The values; refuses an empty one, and a number below 1."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(
                self._kind(part.strip())
                for part in str(value).split(",")
                if part.strip()
            )
        except ValueError:
            self.fail(f"{value!r} is no list of numbers such as 1000,4000", param, ctx)
        if not found or (self._kind is int and min(found) < 1):
            self.fail(f"{value!r} has no value, or one below 1", param, ctx)
        return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("releases", nargs=-1, metavar="[RELEASE]...")
@click.option(
    "--lengths",
    type=Listed(int),
    default=cells.LENGTHS,
    help="Tokens of an output, such as 1000,4000.",
)
@click.option(
    "--widths",
    type=Listed(int),
    default=cells.WIDTHS,
    help="Tokens of a step, such as 1,4.",
)
@click.option(
    "--long-widths",
    type=Listed(int),
    metavar="LIST",
    help=f"Widths for outputs above {cells.LONG} tokens, which take long; without it all of --widths.",
)
@click.option(
    "--workloads",
    "names",
    type=Listed(),
    default=DEFAULT_WORKLOADS,
    help=f"Of {', '.join(workloads.NAMES)}; each also as NAME+reasoning.",
)
@click.option(
    "--paths",
    "ways",
    type=Listed(),
    default=PATHS,
    help=f"Of {', '.join(PATHS)}; responses when named.",
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
    help="A pass that takes longer is given up, and shown as > what it had cost by then; a cell that does has few rounds.",
)
@click.option(
    "--against",
    metavar="REV",
    help="Measure the patches of this revision of the checkout as well.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    show_default=True,
    help="Measure other parsers of the format.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Two lengths, two widths, three rounds: minutes, and no judgement.",
)
@click.option(
    "--json",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all figures here.",
)
@click.option(
    "--plot",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw cost against length into DIR.",
)
@click.option(
    "--results",
    "keep",
    is_flag=True,
    help="Keep the figures in results/bench, and draw docs/cost.svg from all of them.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What the measured code prints.",
)
@click.pass_context
def command(
    context: click.Context,
    releases: tuple[str, ...],
    lengths: tuple[int, ...],
    widths: tuple[int, ...],
    long_widths: tuple[int, ...] | None,
    names: tuple[str, ...],
    ways: tuple[Any, ...],
    rounds: int,
    budget: float,
    against: str | None,
    peers: bool,
    quick: bool,
    target: Path | None,
    plot: Path | None,
    keep: bool,
    log: Path | None,
) -> None:
    """Measure what parsing costs in each RELEASE (all without one): the stock tree beside the patched one, in turn.

    Times are thread time in microseconds per token; what counts are ratios within a round, with their 95 % interval.
    """
    _check(names, ways)
    if quick:
        given = {
            key
            for key in QUICK
            if context.get_parameter_source(key) is ParameterSource.COMMANDLINE
        }
        chosen: list[Any] = [
            value if key in given else QUICK[key]
            for key, value in (
                ("lengths", lengths),
                ("widths", widths),
                ("rounds", rounds),
                ("budget", budget),
            )
        ]
        lengths, widths, rounds, budget = chosen
    if quick and keep:
        raise click.UsageError("the figures of a quick run are not kept")
    plan = cells.grid(ways, names, lengths, widths, long_widths)
    documents = []
    for pinned in places.chosen(releases):
        found = measure(pinned, plan, rounds, budget, against, peers, log)
        documents.append(found)
        for folder in [plot] if plot else []:
            _draw(found, folder)
        if keep:
            console.result(str(kept.keep(found)))
    if keep:
        runs = {pinned.name: kept.read(pinned.name) for pinned in all_releases()}
        figures = {name: run["cells"] for name, run in runs.items() if run}
        console.result(str(draw_releases(figures, kept.plot())))
    failed = [line for found in documents for line in report.failures(found["cells"])]
    if target:
        files.write_text(target, json.dumps({"runs": documents}, indent=1) + "\n")
        console.result(str(target))
    if failed:
        raise PatchsetError(
            f"{len(failed)} measurements failed, the first: {failed[0]}",
            "run again with --log FILE",
        )


def _draw(found: dict[str, Any], folder: Path) -> None:
    for place in draw(found["release"], found["cells"], folder):
        console.result(str(place))


def measure(
    pinned: Release,
    plan: list[cells.Cell],
    rounds: int,
    budget: float,
    against: str | None,
    peers: bool,
    log: Path | None,
) -> dict[str, Any]:
    """Measure one release, show its table, and give its figures."""
    who, where = places.of_release(pinned, against, peers)
    with (
        subjects.workers(where, log) as processes,
        console.progress(f"bench of {pinned.name}", len(plan), unit="cells") as advance,
    ):
        rows = runner.measure(
            plan,
            who,
            processes,
            rounds=rounds,
            budget=budget,
            advance=lambda _: advance(1),
        )
    found = [row.document() for row in rows]
    shown = [
        subject.name
        for subject in who
        if any(subject.name in row["subjects"] for row in found)
    ]
    console.table(report.table(pinned.name, found, shown))
    for line in report.notes(found):
        console.result(line)
    return {
        "release": pinned.name,
        **results.record(SUITE_VERSION, pinned.name, "patched"),
        "against": against,
        "rounds": rounds,
        "cell-seconds": budget,
        "cells": found,
    }


def _check(names: tuple[str, ...], ways: tuple[str, ...]) -> None:
    for name in names:
        kind, _, mode = name.partition("+")
        if kind not in workloads.NAMES or mode not in ("", "reasoning"):
            raise click.BadParameter(
                f"no workload {name!r}; there are {', '.join(workloads.NAMES)}"
            )
    for way in ways:
        if way not in (*PATHS, "responses"):
            raise click.BadParameter(
                f"no path {way!r}; there are {', '.join(PATHS)}, responses"
            )


if __name__ == "__main__":
    run_command.run(command)
