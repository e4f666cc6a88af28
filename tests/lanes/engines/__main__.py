# SPDX-License-Identifier: Apache-2.0
"""``python -m engines [NAME…]``: read the suite's cases with other parsers, beside the
patched one. Exit code 3: could not run.

Judged is the message that a chat client assembles, not the form of its deltas; the
cases are those that declare tools and leave the choice to the model, without a
reasoning parser.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance import case as cases
from conformance import check, schedule, tokens
from conformance.adapters import TESTS, AdapterError
from conformance.case import Case
from conformance.host.judge import Judge
from conformance.reading import ReadCall, Reading, raised
from engines import SUITE_VERSION, table
from engines.host import Host, readings
from engines.peers import PEERS, pinned, read, unpacked
from patchset import files, paths, results, run_command
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
Found = Iterator[tuple[Case, dict[str, Reading]]]


def tree(
    release: Release,
    kind: str,
    parser: str,
    opts: argparse.Namespace,
    chosen: list[Case],
) -> Found:
    """A parser of a vLLM tree, through its serving code."""
    host = Host(opts.trees / release.name / kind, workers=opts.jobs)
    host.parser = parser
    by_name = {case.name: case for case in chosen}
    jobs = [
        {
            "name": case.name,
            "case": case.model_dump(by_alias=True, exclude={"name"}),
            "surfaces": ["chat"],
            "starts": ["plain"],
            "schedules": SCHEDULES,
        }
        for case in chosen
    ]
    for result in host.run(jobs):
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
    with RustFrontend(
        binary, tokens.model_folder(), "none", binary.with_suffix(".log")
    ) as frontend:
        judge = RustJudge(frontend)
        with asyncio.Runner() as runner:
            for case in chosen:
                yield case, runner.run(readings(judge, case, list(SCHEDULES)))


def peer(name: str, chosen: list[Case]) -> Found:
    """Another engine's parser."""
    logging.disable(
        logging.WARNING
    )  # SGLang warns of every value that it does not understand
    parse, judge = PEERS[name](unpacked(name)), Judge(None)
    for case in chosen:
        ids, texts = judge.pieces(case.run("plain"), case)
        found = {}
        for schedule_name in SCHEDULES:
            stream = schedule_name != "full"
            widths = (
                schedule.named(schedule_name, len(ids)).widths
                if stream
                else (len(ids),)
            )
            said = judge.script(ids, texts, widths, case.end, case.stop_string)
            bursts = [text for text, _ in said.bursts]
            try:
                found[schedule_name] = read(
                    parse(case, bursts, stream),
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
    release: Release, opts: argparse.Namespace, chosen: list[Case]
) -> dict[str, tuple[str, str, Found]]:
    """By name: the cell of the results, what the table calls it, and what it reads."""
    vllm, wheels = (
        f"vLLM {release.name}",
        {name: wheel.file.split("-")[1] for name, wheel in pinned().items()},
    )
    return {
        "patched": (
            "patched qwen3_coder",
            f"{vllm}, patched",
            tree(release, "patched", "qwen3_coder", opts, chosen),
        ),
        "stock": (
            "stock qwen3_coder",
            f"{vllm}, `qwen3_coder`",
            tree(release, "stock", "qwen3_coder", opts, chosen),
        ),
        "qwen3_xml": (
            "stock qwen3_xml",
            f"{vllm}, `qwen3_xml`",
            tree(release, "stock", "qwen3_xml", opts, chosen),
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


def main() -> int:
    """Command line."""
    names = ("patched", "stock", "qwen3_xml", "rust", *PEERS)
    parser = argparse.ArgumentParser(
        prog="nox -s engines --",
        description="Other parsers of the format, judged by the same cases.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(names)}; default: all but qwen3_xml",
    )
    parser.add_argument("--release", help="of vLLM; default: the default release")
    parser.add_argument(
        "--case", action="append", default=[], help="name, glob or group; default: all"
    )
    parser.add_argument(
        "--trees",
        type=Path,
        default=TESTS.parents[1] / "build/trees",
        help="folder of <release>/{stock,patched}",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="processes for a tree; default: 2"
    )
    parser.add_argument(
        "--results", action="store_true", help="put the totals into results/engines/"
    )
    opts = parser.parse_args()
    if unknown := set(opts.names) - set(names):
        parser.error(
            f"no engine {', '.join(sorted(unknown))}; there are {', '.join(names)}"
        )
    if opts.results and opts.case:
        parser.error("--results are those of all cases; leave --case away")
    # From v0.24.0 on qwen3_xml is another name of qwen3_coder.
    wanted = opts.names or [name for name in names if name != "qwen3_xml"]
    chosen = [
        case
        for case in cases.load(opts.case)
        if "plain" in case.starts
        and case.tools
        and case.tool_choice == "auto"
        and case.class_ != "implementation-defined"
    ]
    release = load(opts.release)
    for name, (cell, label, found) in subjects(release, opts, chosen).items():
        if name not in wanted:
            continue
        counted = judged(found)
        print(f"{label}: {counted}", flush=True)
        if opts.results:
            figures = {"engine": label, **counted}
            results.keep(table.LANE, SUITE_VERSION, release.name, cell, figures)
    return 0


if __name__ == "__main__":
    run_command.run_lane(main, AdapterError)
