# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.corpora``: how often a reader reads what the model meant.

Exit status 0: the corpora were judged, whatever came out; 2: usage.
"""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from conformance import check, corpora
from conformance.case import Case
from conformance.corpora.reader import Reader, random_pieces, reading
from conformance.report import Report
from conformance.table import keep_corpora
from patchset import paths, run_command
from patchset.release import load

READER = "files/vllm/parser/qwen_tool_reader.py"


def judged(reader: Reader, case: Case, cuts: int) -> dict[str, Any]:
    """The result of a case, as a tree's host gives it: the output whole, and in random
    pieces, of which ``varies`` are read otherwise.
    """
    found: list[check.Found]
    varies = 0
    try:
        events = reader.events(case, [case.output])
    except Exception as error:  # the code under test may raise anything
        found = [("lost", f"{type(error).__name__}: {error}")]
    else:
        want = case.expected.model_copy(update={"tools": case.tools})
        found = check.problems(reading(events, case), want)
        rng = random.Random(f"0/{case.name}")
        for _ in range(cuts):
            pieces = random_pieces(case.output, rng)
            if reader.events(case, pieces) != events:
                varies += 1
                found.append(("form", f"otherwise in the pieces {pieces}"))
    right = check.worst(found) in ("", "form")
    chosen = case.class_ == "implementation-defined"
    bad = [each for each in found if not chosen or each[0] == "form"]
    return {
        "case": case.name,
        "class": case.class_,
        "start": case.starts[0],
        "surface": "reader",
        "reasoning": "",
        "ordinary": False,
        "right": [] if bad else ["full"],
        "wrong": (
            {"full": [check.worst(bad), *(why for _, why in bad)]} if bad else {}
        ),
        "differs": chosen and not right,
        "varies": varies,
        "sdk": {},
        "streams": 1 + cuts,
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--reader", type=Path, help="A qwen_tool_reader.py; default: ours.")
@click.option(
    "--sample", default=0, metavar="N", help="At most N cases of a corpus; 0: all."
)
@click.option(
    "--corpus",
    "patterns",
    multiple=True,
    default=["*"],
    metavar="NAME",
    help="Name or glob; may be repeated.",
)
@click.option(
    "--cuts",
    default=2,
    show_default=True,
    metavar="N",
    help="Random cuts of each output into pieces.",
)
@click.option("--failures", default=0, metavar="N", help="Print so many failures.")
@click.option("--results", "keep", is_flag=True, help="Keep the figures.")
@click.option("--list", "only_list", is_flag=True, help="Print the corpora.")
def command(
    reader: Path | None,
    sample: int,
    patterns: tuple[str, ...],
    cuts: int,
    failures: int,
    keep: bool,
    only_list: bool,
) -> None:
    """Judge a reader alone by seeded corpora."""
    cases = list(corpora.load([f"corpora/{name}" for name in patterns], sample))
    if not cases:
        raise click.UsageError("no such corpus; --list prints their names")
    if only_list:
        for name, size in Counter(case.name.split("/")[1] for case in cases).items():
            print(f"{name:50} {size:>6} cases")
        return
    began = time.monotonic()
    loaded = Reader(reader or paths.patches_dir() / READER)
    report = Report(str(reader or READER), "reader", "python -m conformance.corpora")
    report.results = [judged(loaded, case, cuts) for case in cases]
    report.streams = sum(result["streams"] for result in report.results)
    report.show_corpora()
    for failure in report.failures()[:failures]:
        print(f"\n{failure['harm']} {failure['case']}")
        print(*failure["problems"], sep="\n")
    varies = sum(result["varies"] for result in report.results)
    print(
        f"{len(cases)} cases; of {cuts * len(cases)} random cuts {varies} were read "
        f"otherwise; {time.monotonic() - began:.0f} s"
    )
    if keep:
        keep_corpora(report, load(None).name, sample)


if __name__ == "__main__":
    run_command.run(command)
