# SPDX-License-Identifier: Apache-2.0
"""Counts what an engine reads of the suite's outputs, and measures its cost."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import worker, workloads
from bench.cells import Cell
from bench.runner import Worker
from conformance import case as cases
from conformance import check, corpora
from conformance.case import Case
from judges import rust as judges_rust
from patchset.release import Release
from peers.asking import Peer, Readings

SCHEDULES = ["full", "w1", "w3", "w5", "whole"]
#: Groups of cases of which a peer may rightly take another view: types, names and tools
#: that are not declared, white space, escapes, and what is an example.
VIEW = (
    *("escapes", "examples", "names", "no-tools", "think-tags", "types", "undeclared"),
    "whitespace",
)
#: Outputs of real models, and canitoolcall's fixtures.
OTHERS = ("corpora/real-outputs", "corpora/canitoolcall")
#: Tokens of the call whose cost is measured, one a step.
LENGTHS = (4_000, 32_000)
#: A measurement is given up after so many seconds.
BUDGET_S = 30.0

Figures = dict[str, dict[str, int]]


def chosen(patterns: Iterable[str]) -> list[Case]:
    """Return the cases that are fair to ask of a parser alone: with tools, left to the
    model, without reasoning, and with one right reading.
    """
    some = [*cases.load(patterns)] if patterns else [*cases.load()]
    some += corpora.load(patterns or OTHERS)
    return [
        case.model_copy(update={"starts": ("plain",)})
        for case in some
        if {"plain", "closed", "sealed"}.intersection(case.starts)
        and case.tools
        and case.tool_choice == "auto"
        and case.end != "stop-string"
        and case.class_ != "implementation-defined"
        and not (case.request or case.drop_tokens or case.expected.reasoning)
    ]


def group(case: Case) -> str:
    """Return what a case is counted in: ``core``, ``view`` or ``real``."""
    if case.name.startswith("corpora"):
        return "real"
    return "view" if case.name.partition("/")[0] in VIEW else "core"


def count(asked: list[Case], read: Iterable[tuple[str, Readings]]) -> Figures:
    """Return how many cases are ``right`` and wrong by harm, of each group: a case by
    the worse of *not streamed* and *one token a step*; and in how many the message
    depends on how the output is cut.
    """
    by_name = {case.name: case for case in asked}
    figures: dict[str, Counter[str]] = {}
    for name, readings in read:
        case = by_name[name]
        tally = figures.setdefault(group(case), Counter())
        want = case.run("plain").expected
        problems, messages = [], set()
        for way, reading in readings.items():
            reading.broken = []  # the message counts, not the form of its deltas
            if way in ("full", "w1"):
                problems += check.problems(reading, want)
            if way != "full":
                calls = tuple((call.name, call.text) for call in reading.calls)
                messages.add((reading.content, calls, reading.finish, reading.failed))
        harm = check.worst(problems)
        tally["right" if harm in ("", "form") else harm] += 1
        tally["cases"] += 1
        tally["burst_dependent"] += len(messages) > 1
    return {name: dict(tally) for name, tally in figures.items()}


def readings(peer: Peer, asked: list[Case]) -> Iterator[tuple[str, Readings]]:
    for case in asked:
        yield case.name, peer.readings(case, SCHEDULES)


def rust(release: Release, asked: list[Case]) -> Iterator[tuple[str, Readings]]:
    """Yield the same of vLLM's Rust frontend, which the judge of that name drives."""
    for case, read in judges_rust.readings(release, asked):
        yield case.name, {name: read[name] for name in SCHEDULES}


def cost(peer: Peer) -> list[float | None]:
    """Return microseconds a token of one long call at ``LENGTHS``; None: given up."""
    costs: list[float | None] = []
    for length in LENGTHS:
        _, ids, texts = worker._workload("string", length)
        pieces = {"w1": [text for text in texts if text]}
        asked = {"tools": workloads.TOOLS, "end": "stop", "pieces": pieces}
        answers: list[dict[str, Any] | None] = [peer.ask(asked) for _ in range(2)]
        seconds = [answer["seconds"] for answer in answers if answer]
        costs.append(round(min(seconds) / len(ids) * 1e6, 1) if seconds else None)
    return costs


def tree_cost(tree: Path, log: Path) -> list[float | None]:
    measured = Worker(tree, log)
    try:
        costs: list[float | None] = []
        for length in LENGTHS:
            cell = Cell("parser", "string", length, 1)
            samples = [measured.ask(cell, BUDGET_S) for _ in range(2)]
            best = min(sample["seconds"] for sample in samples)
            costs.append(round(best / samples[0]["tokens"] * 1e6, 1))
        return costs
    finally:
        measured.child.end()
