# SPDX-License-Identifier: Apache-2.0
"""``python -m engines [NAME…]``: read the suite's cases with other parsers, beside the
patched one. Exit status 3: could not run.

Judged is the message that a chat client assembles, not the form of its deltas; the
cases are those that declare tools and leave the choice to the model, without a
reasoning parser.
"""

import asyncio
import contextlib
import logging
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import results
from conformance import case as cases
from conformance import check, schedule, tokens
from conformance.adapters import AdapterError, TreeAdapter
from conformance.case import Case
from conformance.host.judge import pieces, script
from conformance.reading import ReadCall, Reading, raised
from conformance.surfaces import chat
from engines import SUITE_VERSION, table
from engines.peers import PEERS, pinned, read, unpacked
from patchset import files, paths, run_command
from patchset.inputs import fetch
from patchset.release import Release, load

SCHEDULES = (
    "full",
    "w1",
    "w2",
    "w3",
    "w4",
    "w5",
    "w6",
    "whole",
    *(f"mtp{k}#0" for k in (1, 2, 3, 4, 5, 7, 15)),
)
NAMES = ("patched", "stock", "qwen3_xml", "rust", *PEERS)
Found = Iterator[tuple[Case, dict[str, Reading]]]


def tree(tree: Path, parser: str, workers: int, chosen: list[Case]) -> Found:
    """A parser of a vLLM tree, through its serving code."""
    parsers = {"none": ["--tool-call-parser", parser]}
    by_name = {case.name: case for case in chosen}
    jobs = [
        {
            "name": case.name,
            "case": cases.document(case),
            "surfaces": ["chat"],
            "starts": ["plain"],
            "schedules": SCHEDULES,
            "readings": True,
        }
        for case in chosen
    ]
    for result in TreeAdapter(tree, workers=workers, parsers=parsers).run(jobs):
        found = result.get("readings", {})
        yield (
            by_name[result["name"]],
            {name: _reading(found.get(name)) for name in SCHEDULES},
        )


def _reading(document: dict[str, Any] | None) -> Reading:
    if document is None:
        return raised("hang", "the host died or gave no answer")
    calls = [ReadCall(**call) for call in document["calls"]]
    return Reading(**{**document, "calls": calls})


def rust(release: Release, chosen: list[Case]) -> Found:
    """The Rust frontend of the release's official wheel."""
    from engines.rust import RustFrontend, RustJudge

    binary = paths.build_dir() / "engines" / f"vllm-rs-{release.name}"
    if not binary.is_file():
        wheel = fetch.artifact(release.wheel("cuda", "x86_64"))
        with zipfile.ZipFile(wheel) as archive, files.atomic_file(binary) as unfinished:
            unfinished.write_bytes(archive.read("vllm/vllm-rs"))
        binary.chmod(0o755)
    frontend = RustFrontend(binary, tokens.model_folder(), binary.with_suffix(".log"))
    with contextlib.closing(frontend), asyncio.Runner() as runner:
        judge = RustJudge(frontend)
        for case in chosen:
            yield case, runner.run(judge.readings(chat, case, "plain", list(SCHEDULES)))


def peer(name: str, chosen: list[Case]) -> Found:
    """Another engine's parser."""
    logging.disable(
        logging.WARNING
    )  # SGLang warns of every value that it does not understand
    parse = PEERS[name](unpacked(name))
    for case in chosen:
        ids, texts = pieces(case, case.run("plain"))
        found = {}
        for schedule_name in SCHEDULES:
            widths = schedule.named(schedule_name, len(ids))
            said = script(ids, texts, widths, case.end, case.stop_string)
            bursts = [text for text, _ in said.bursts]
            try:
                found[schedule_name] = read(
                    parse(case, bursts, schedule_name != "full"),
                    "length" if case.end == "length" else "stop",
                )
            except Exception as error:  # the code under test may raise anything
                why = f"{type(error).__name__}: {error}"
                found[schedule_name] = raised("exception", why)
        yield case, found


def judged(found: Iterable[tuple[Case, dict[str, Reading]]]) -> dict[str, Any]:
    """The totals of one engine."""
    out = Counter[str]()
    for case, by_name in found:
        run = case.run("plain")
        seen = set()
        quoted = False
        for name, reading in by_name.items():
            # A parser has no stream: what is wrong in form is the server's.
            reading.broken = []
            harm = check.worst(check.problems(reading, run.expected))
            out["all"] += 1
            out["right"] += harm in ("", "form")
            out[harm] += 1
            message = (
                reading.content,
                *((call.name, call.text) for call in reading.calls),
                reading.finish,
            )
            if name != "full":
                seen.add(message)
            quoted |= harm == "ran"
        out["cases"] += 1
        out["burst_dependent"] += len(seen) > 1
        out["quoted_executed"] += quoted
    del out[""]
    return dict(out)


def subjects(
    release: Release, workers: int, chosen: list[Case]
) -> dict[str, tuple[str, str, Found]]:
    """By name: the cell of the results, what the table calls it, and what it reads."""
    vllm, trees = f"vLLM {release.name}", paths.trees_dir(release.name)
    wheels = {name: wheel.file.split("-")[1] for name, wheel in pinned().items()}
    return {
        "patched": (
            "patched qwen3_coder",
            f"{vllm}, patched",
            tree(trees / "patched", "qwen3_coder", workers, chosen),
        ),
        "stock": (
            "stock qwen3_coder",
            f"{vllm}, `qwen3_coder`",
            tree(trees / "stock", "qwen3_coder", workers, chosen),
        ),
        "qwen3_xml": (
            "stock qwen3_xml",
            f"{vllm}, `qwen3_xml`",
            tree(trees / "stock", "qwen3_xml", workers, chosen),
        ),
        "rust": ("stock rust", f"{vllm}, Rust frontend", rust(release, chosen)),
        "sglang": (
            "stock sglang",
            f"SGLang {wheels['sglang']}, `Qwen3CoderDetector`",
            peer("sglang", chosen),
        ),
        "lmdeploy": (
            "stock lmdeploy",
            f"LMDeploy {wheels['lmdeploy']}, `qwen3coder`",
            peer("lmdeploy", chosen),
        ),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAME]...")
@click.option("--release", "pinned_as", help="Of vLLM; without one, the default one.")
@click.option("--case", "patterns", multiple=True, help="Name, glob or group.")
@click.option("--jobs", default=2, show_default=True, help="Processes for a tree.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/engines.")
def command(
    names: tuple[str, ...],
    pinned_as: str | None,
    patterns: tuple[str, ...],
    jobs: int,
    keep: bool,
) -> None:
    """Judge other parsers of the format by the suite's cases.

    NAME is patched, stock, qwen3_xml, rust, sglang or lmdeploy; without one, all but
    qwen3_xml.
    """
    if keep and patterns:
        raise click.UsageError("--results are those of all cases; leave --case away")
    # From v0.24.0 on qwen3_xml is another name of qwen3_coder.
    wanted = names or [name for name in NAMES if name != "qwen3_xml"]
    chosen = [
        case
        for case in cases.load(patterns)
        if "plain" in case.starts
        and case.tools
        and case.tool_choice == "auto"
        and case.class_ != "implementation-defined"
    ]
    release = load(pinned_as)
    for name, (cell, label, found) in subjects(release, jobs, chosen).items():
        if name not in wanted:
            continue
        counted = judged(found)
        print(f"{label}: {counted}", flush=True)
        if keep:
            figures = {"engine": label, **counted}
            results.keep(table.LANE, SUITE_VERSION, release.name, cell, figures)


if __name__ == "__main__":
    run_command.run_lane(lambda: command.main(standalone_mode=False) or 0, AdapterError)
