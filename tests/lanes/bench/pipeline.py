# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.pipeline``: what the steps of the pipeline take, with a cold and a warm cache.

Each round begins with an empty build folder (cold), and runs the steps again in it (warm). Downloads are there already,
verified by each run as always; with ``--network`` the first state has none either.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from bench.stats import ratio, spread
from patchset import console, files, paths, release, run_command
from patchset.errors import EXIT_CONFLICT, PatchsetError
from patchset.release import Release


@dataclass(frozen=True)
class Step:
    """One command of the tool. Names in braces in its arguments are filled in from a :class:`Plan`."""

    name: str
    arguments: tuple[str, ...]
    #: Exit statuses of a step that did its work.
    done: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Plan:
    """What the steps are about."""

    pinned: Release
    target: str
    #: The release before, from which a rebase carries the series; ``None`` for the oldest.
    before: Release | None = None
    #: A registry's image, on which the thin layer is put; ``None`` leaves that step away.
    base: str | None = None

    def command(self, step: Step) -> list[str]:
        """A step's command line."""
        names = {
            "release": self.pinned.name, "target": self.target, "base": self.base,
            "before": self.before.name if self.before else None,
        }  # fmt: skip
        return [part.format_map(names) for part in step.arguments]

    def steps(self) -> list[Step]:
        """In the order in which they are run, each on what the ones before it made."""
        out = [
            Step("apply", ("apply", "{release}")),
            Step("overlay wheel", ("build-wheel", "{release}", "--target", "{target}", "--mode", "overlay")),
        ]
        if self.base:
            out.append(
                Step(
                    "thin layer",
                    ("build-image", "{release}", "--target", "{target}", "--base", "{base}"),
                )
            )
        if self.before:
            # A conflict is the step's result as well: what a person resolves then is not timed.
            carry = ("rebase", "{release}", "--from", "{before}", "--dry-run")
            out.append(Step(f"rebase step from {self.before.name}", carry, (0, EXIT_CONFLICT)))
        return out


def run_step(step: Step, plan: Plan, build: Path, downloads: Path) -> float:
    """Seconds that a step takes as its own process.

    Raises:
        PatchsetError: it fails.
    """
    environment = {
        **os.environ,
        "PATCHSET_ROOT": str(paths.project_root()),
        "PATCHSET_BUILD_DIR": str(build),
        "PATCHSET_DOWNLOADS": str(downloads),
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "patchset", *plan.command(step)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in step.done:
        failed = PatchsetError(f"{step.name} of {plan.pinned.name} failed:\n{done.stderr.strip()[-1000:]}")
        failed.exit_code = done.returncode
        raise failed
    return time.monotonic() - began


def measure(
    plan: Plan, rounds: int, network: bool, steps: Sequence[Step]
) -> dict[str, dict[str, list[float]]]:
    """Seconds of each step, by state ("empty", "cold", "warm") and round."""
    found: dict[str, dict[str, list[float]]] = {step.name: {} for step in steps}
    place = paths.build_dir() / "bench"
    place.mkdir(parents=True, exist_ok=True)
    states = 3 if network else 2
    with console.progress(
        f"pipeline of {plan.pinned.name}", rounds * states * len(steps), unit="steps"
    ) as advance:

        def through(state: str, build: Path, downloads: Path) -> None:
            for step in steps:
                found[step.name].setdefault(state, []).append(run_step(step, plan, build, downloads))
                advance(1)

        # Whatever the cold runs need is downloaded before they are timed.
        through_once(plan, place, steps)
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix=files.TEMP_PREFIX, dir=place) as name:
                build = Path(name) / "build"
                if network:
                    through("empty", build, Path(name) / "downloads")
                    shutil.rmtree(build)
                through("cold", build, paths.downloads_dir())
                through("warm", build, paths.downloads_dir())
    return found


def through_once(plan: Plan, place: Path, steps: Sequence[Step]) -> None:
    """Run the steps once, untimed."""
    with tempfile.TemporaryDirectory(prefix=files.TEMP_PREFIX, dir=place) as name:
        for step in steps:
            run_step(step, plan, Path(name), paths.downloads_dir())


def table(release_name: str, found: dict[str, dict[str, list[float]]]) -> Table:
    """One line a step and state: seconds, and the ratio to the cold state."""
    out = Table(
        title=f"{release_name}: seconds a step (median, least, greatest); median ratio to a cold cache"
    )
    for name in ("step", "cache", "seconds", "/ cold"):
        out.add_column(name)
    for step, states in found.items():
        for state, seconds in states.items():
            median, low, high = spread(seconds)
            over = "" if state == "cold" else str(ratio(seconds, states["cold"]))
            out.add_row(step, state, f"{median:.2f} ({low:.2f}–{high:.2f})", over)
    return out


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, metavar="[RELEASE]")
@click.option("--target", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Cold runs of each step."
)
@click.option(
    "--base", metavar="REF", help="An image of RELEASE in a registry: times the thin layer on it, too."
)
@click.option("--network", is_flag=True, help="Also with no download there: measures the package index, too.")
@click.option(
    "--json", "place", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here."
)
def command(
    name: str | None, target: str, rounds: int, base: str | None, network: bool, place: Path | None
) -> None:
    """Time the steps of the pipeline for RELEASE (the default one without it)."""
    pinned = release.load(name)
    names = release.release_names()
    at = names.index(pinned.name)
    plan = Plan(pinned, target, release.load(names[at - 1]) if at else None, base)
    found = measure(plan, rounds, network, plan.steps())
    console.table(table(pinned.name, found))
    if place:
        document: dict[str, Any] = {"release": pinned.name, "target": target, "seconds": found}
        files.write_text(place, json.dumps(document, indent=1) + "\n")
        console.result(str(place))


if __name__ == "__main__":
    run_command.run(command)
