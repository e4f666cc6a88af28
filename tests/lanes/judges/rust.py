# SPDX-License-Identifier: Apache-2.0
"""The suite's cases read by the Rust frontend of a release's official wheel.

Judged is the message that a chat client assembles, not the form of its deltas; the
cases are those that declare tools and leave the choice to the model, without a
reasoning parser.
"""

import asyncio
import contextlib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import click

import results
from conformance import case as cases
from conformance import check, tokens
from conformance.case import Case
from conformance.reading import Reading
from conformance.report import add
from conformance.surfaces import chat
from judges import LANES
from patchset import files, paths
from patchset.inputs import fetch
from patchset.release import Release, load

SCHEDULES = [
    "full",
    *(f"w{width}" for width in range(1, 7)),
    "whole",
    *(f"mtp{k}#0" for k in (1, 2, 3, 4, 5, 7, 15)),
]
Found = Iterator[tuple[Case, dict[str, Reading]]]


def readings(release: Release, chosen: list[Case]) -> Found:
    from judges.frontend import RustFrontend, RustJudge  # needs a tree's packages

    binary = paths.build_dir() / "judges" / f"vllm-rs-{release.name}"
    if not binary.is_file():
        wheel = fetch.artifact(release.wheel("cuda", "x86_64"))
        with zipfile.ZipFile(wheel) as archive, files.atomic_file(binary) as unfinished:
            unfinished.write_bytes(archive.read("vllm/vllm-rs"))
        binary.chmod(0o755)
    frontend = RustFrontend(binary, tokens.model_folder(), binary.with_suffix(".log"))
    with contextlib.closing(frontend), asyncio.Runner() as runner:
        judge = RustJudge(frontend)
        for case in chosen:
            yield case, runner.run(judge.readings(chat, case, "plain", SCHEDULES))


def judged(readings: Iterable[tuple[Case, dict[str, Reading]]]) -> dict[str, Any]:
    out = Counter[str]()
    for case, by_name in readings:
        harms, seen = [], set()
        for name, reading in by_name.items():
            reading.broken = []  # the message counts, not the form of its deltas
            problems = check.problems(reading, case.run("plain").expected)
            harms.append(check.worst(problems))
            add(out, harms[-1])
            if name != "full":
                calls = ((call.name, call.text) for call in reading.calls)
                seen.add((reading.content, *calls, reading.finish))
        out["cases"] += 1
        out["burst_dependent"] += len(seen) > 1
        out["quoted_executed"] += "ran" in harms
    del out[""]
    return dict(out)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, metavar="[RELEASE]")
@click.option("--case", "patterns", multiple=True, help="Name, glob or group.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/rust.")
def command(name: str | None, patterns: tuple[str, ...], keep: bool) -> None:
    """Judge the Rust frontend of RELEASE's official wheel by the suite's cases.

    It runs on the CPU, without a model.
    """
    if keep and patterns:
        raise click.UsageError("--results are those of all cases; leave --case away")
    release = load(name)
    chosen = [
        case
        for case in cases.load(patterns)
        if "plain" in case.starts
        and case.tools
        and case.tool_choice == "auto"
        and case.class_ != "implementation-defined"
    ]
    counted = judged(readings(release, chosen))
    print(f"{release.name} Rust frontend: {counted}", flush=True)
    if keep:
        results.keep("rust", LANES["rust"], release.name, "stock", counted)
