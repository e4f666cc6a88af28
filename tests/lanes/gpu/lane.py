# SPDX-License-Identifier: Apache-2.0
"""Cells at work: some at a time, each in a process of its own, within a time limit, and none that is done already."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu.cells import Job
from gpu.prepared import Prepared
from patchset import console

#: What a cell is taken to need before one has been seen, in seconds.
FIRST_GUESS = 150.0
#: A cell that is stopped has this long to stop its server, in seconds.
STOP_SECONDS = 40
_POLL = 0.2
_MOST_OUTPUT = 60_000

Command = Callable[[Job], list[str]]


@dataclass
class Outcome:
    """Results of jobs that are done, jobs that failed, and jobs for which there was no time."""

    results: list[dict[str, Any]] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)

    def bad(self) -> list[str]:
        """What keeps the lane from being green: failed cells, complaints, and wrong answers of a patched wheel."""
        found = [f"{job.variant} {job.cell.name} k={job.mtp}" for job in self.failed]
        for cell in self.results:
            wrong = cell["variant"] == "patched" and cell["right"] < cell["requests"]
            if wrong or cell["complaints"]:
                found.append(f"{cell['variant']} {cell['cell']} k={cell['mtp']}")
        return found


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    output: Path
    begun: float


def worker(prepared: Path, out: Path) -> Command:
    """The command that runs a job in a process of its own."""

    def command(job: Job) -> list[str]:
        words = [
            sys.executable,
            "-m",
            "gpu.cell",
            str(prepared),
            "--variant",
            job.variant,
        ]
        return [
            *words,
            "--cell",
            job.cell.name,
            "--mtp",
            str(job.mtp),
            "--out",
            str(out),
        ]

    return command


def run(
    prepared: Prepared,
    jobs: Sequence[Job],
    out: Path,
    command: Command,
    *,
    servers: int,
    seconds: float | None,
) -> Outcome:
    """Run the jobs that have no result of the same wheel and model yet, ``servers`` at a time.

    No job is begun that would probably not end in time, and what runs when ``seconds`` are over is stopped; both are
    in ``left``, and the next run takes them up.
    """
    deadline = time.monotonic() + seconds if seconds is not None else float("inf")
    outcome = Outcome()
    waiting = []
    for job in jobs:
        found = result(prepared, job, out)
        if found is None:
            waiting.append(job)
        else:
            outcome.results.append(found)
    if outcome.results:
        console.note(f"{len(outcome.results)} of {len(jobs)} cells are done already")
    guess = max(
        (cell["seconds"]["all"] for cell in outcome.results), default=FIRST_GUESS
    )
    at_work: list[_Running] = []
    try:
        while waiting or at_work:
            while waiting and len(at_work) < servers:
                if time.monotonic() + guess > deadline - STOP_SECONDS:
                    outcome.left += waiting
                    waiting = []
                    break
                at_work.append(_start(waiting.pop(0), prepared, out, command))
            time.sleep(_POLL)
            for one in [one for one in at_work if one.process.poll() is not None]:
                at_work.remove(one)
                guess = max(
                    _ended(one, prepared, out, outcome), guess if outcome.results else 0
                )
            if time.monotonic() > deadline - STOP_SECONDS and at_work:
                console.note("the time is up; what still runs is stopped")
                outcome.left += [one.job for one in at_work] + waiting
                break
    finally:
        _stop(at_work)
    return outcome


def result(prepared: Prepared, job: Job, out: Path) -> dict[str, Any] | None:
    """The result of a job, if there is one of the same wheel, series and model."""
    place = out / "cells" / f"{job.name(prepared.release)}.json"
    try:
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    variant = prepared.variants[job.variant]
    checkpoint = Path(prepared.checkpoint).name if prepared.checkpoint else None
    same = (
        found["wheel"] == variant.wheel
        and found["revision"] == prepared.revision
        and found.get("checkpoint", {}).get("key") == checkpoint
        and found["model"] == (prepared.model or "the cpu lane's checkpoint")
    )
    return found if same else None


def _start(job: Job, prepared: Prepared, out: Path, command: Command) -> _Running:
    console.note(f"> {prepared.release} {job.variant}, {job.cell.name}, k = {job.mtp}")
    output = out / "output" / f"{job.name(prepared.release)}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as file:
        process = subprocess.Popen(command(job), stdout=file, stderr=subprocess.STDOUT)
    return _Running(job, process, output, time.monotonic())


def _ended(one: _Running, prepared: Prepared, out: Path, outcome: Outcome) -> float:
    """Put a job that ended where it belongs, and return how long it took, in seconds; 0 for a failure."""
    name = (
        f"{prepared.release} {one.job.variant}, {one.job.cell.name}, k = {one.job.mtp}"
    )
    seconds = time.monotonic() - one.begun
    failed = out / "failed" / f"{one.job.name(prepared.release)}.txt"
    found = result(prepared, one.job, out) if one.process.returncode == 0 else None
    if found is None:
        text = one.output.read_text(encoding="utf-8", errors="replace")[-_MOST_OUTPUT:]
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.write_text(text, encoding="utf-8")
        outcome.failed.append(one.job)
        last = text.strip().splitlines()[-1:] or ["(nothing said)"]
        console.note(f"  {name}: failed after {seconds:.0f} s: {last[0][:200]}")
        return 0.0
    failed.unlink(missing_ok=True)
    outcome.results.append(found)
    accepted = (
        f", {found['acceptance']:.0%} of the drafts accepted" if one.job.mtp else ""
    )
    console.note(
        f"  {name}: {found['right']} of {found['requests']} right{accepted}; {seconds:.0f} s"
    )
    return seconds


def _stop(at_work: Sequence[_Running]) -> None:
    """Ask all to stop their servers, as Ctrl-C does; by force after ``STOP_SECONDS``."""
    for one in at_work:
        one.process.terminate()
    until = time.monotonic() + STOP_SECONDS
    for one in at_work:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, until - time.monotonic()))
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
