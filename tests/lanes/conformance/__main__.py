# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance [TREE …]``: run the suite. Exit status 0: all right; 1:
something wrong; 2: usage; 3: could not run.
"""

import shlex
import sys
import time
from pathlib import Path

import click

from conformance import case as cases
from conformance import corpora, table
from conformance.adapters import Job, TreeAdapter, jobs_for
from conformance.corpora.reader import Reader, alone
from conformance.guard import SCHEDULES, compare
from conformance.report import Report, group, show
from patchset import paths, run_command
from patchset.errors import PatchsetError
from patchset.release import load

READER = "modules/vllm/parser/qwen_tool_reader.py"
SAMPLE = 40  # cases of each corpus
SURFACES = ("chat", "responses", "messages")
QUICK = r"w1|mtp5#.*"
DRAFTS = r"w1|mtp[1-5]#0"
#: Beside these reasoning parsers the grammar of a required call waits for </think>.
WAITING = ("deepseek_r1", "step5")
BEGINS_IN_REASONING = "tool-choice-required/begins-in-reasoning"


def resolve(name: str, kind: str) -> Path:
    """Return the tree that a command-line word means: a folder, or a release.

    Raises PatchsetError when there is none.
    """
    if Path(name).is_dir():
        return Path(name)
    side = "stock" if kind == "plugin" else kind
    tree = paths.trees_dir(f"v{name.removeprefix('v')}") / side
    if (tree / "vllm").is_dir():
        return tree
    raise PatchsetError(
        f"no {side} tree for {name!r} (give a folder; nox -s apply -- RELEASE makes it)"
    )


def repeat(
    tree: Path,
    kind: str,
    plugin: Path | None,
    pair: str | None,
    patterns: tuple[str, ...],
    sample: int,
) -> str:
    """Return the command that asks a tree again, to be given in the project's root."""
    arguments = ["--reader"] * (kind == "reader") + [str(tree)]
    arguments += ["--plugin", str(plugin)] if plugin else []
    arguments += ["--pair", pair] if pair else []
    for file in cases.files(patterns):
        arguments += ["--case", file]
    arguments += ["--sample", str(sample)] if sample != SAMPLE else []
    module = f"PYTHONPATH=tests/lanes {sys.executable} -m conformance"
    return f"{module} {shlex.join(arguments)}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("targets", nargs=-1, metavar="[TREE]...")
@click.option("--stock", is_flag=True, help="The stock tree instead.")
@click.option(
    "--plugin",
    type=Path,
    metavar="WHEEL",
    help="Load this plugin into the stock tree instead.",
)
@click.option(
    "--reader",
    is_flag=False,
    flag_value=str(paths.patches_dir() / READER),
    metavar="[FILE]",
    help="A qwen_tool_reader.py alone instead, ours by default, without a server.",
)
@click.option(
    "--cuts", default=2, show_default=True, help="Random cuts that --reader is given."
)
@click.option(
    "--case", "patterns", multiple=True, help="Name, glob, group, or a case file."
)
@click.option(
    "--surface",
    "surfaces",
    multiple=True,
    type=click.Choice(SURFACES),
    help="Without one: all three; of corpora chat alone.",
)
@click.option(
    "--reasoning",
    type=click.Choice(["qwen3", "none"]),
    help="Only starts with this reasoning parser.",
)
@click.option(
    "--pair",
    metavar="REASONING/TOOL",
    help="Parsers in place of qwen3 and qwen3_coder, as deepseek_r1/qwen3_coder.",
)
@click.option("--start", type=click.Choice([*cases.STARTS]), help="Only this start.")
@click.option(
    "--schedule",
    "schedules",
    multiple=True,
    help="w1, w4, whole, split@17, mtp3#0, cuts:1,2,3, or full (not streamed).",
)
@click.option(
    "--mtp",
    type=int,
    metavar="K",
    help="Only what speculation depth K does (0: one token a step).",
)
@click.option("--full", is_flag=True, help="All two-way splits.")
@click.option("--quick", is_flag=True, help="Only not streamed, k = 0 and k = 5.")
@click.option("--drafts", is_flag=True, help="Only not streamed, and k = 0 to 5.")
@click.option(
    "--guard",
    is_flag=True,
    help="Compare with stock: what is worse? With --results all schedules are asked "
    "(those of --drafts), and the totals of both trees are kept as well.",
)
@click.option(
    "--sample", default=SAMPLE, show_default=True, help="Cases of each corpus; 0: all."
)
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option("--results", "keep", is_flag=True, help="Keep the totals of each tree.")
@click.option("--log", type=Path, help="What the releases write.")
@click.option("--failures", default=10, show_default=True, help="Failures to print.")
@click.option("--list", "only_list", is_flag=True, help="Print the cases.")
def command(
    targets: tuple[str, ...],
    stock: bool,
    plugin: Path | None,
    reader: str | None,
    cuts: int,
    patterns: tuple[str, ...],
    surfaces: tuple[str, ...],
    reasoning: str | None,
    pair: str | None,
    start: str | None,
    schedules: tuple[str, ...],
    mtp: int | None,
    full: bool,
    quick: bool,
    drafts: bool,
    guard: bool,
    sample: int,
    jobs: int,
    keep: bool,
    log: Path | None,
    failures: int,
    only_list: bool,
) -> int:
    """Judge the tool calls of vLLM trees (folders, or releases)."""
    chosen = list(cases.load(patterns))
    chosen += corpora.load(patterns or (("corpora",) if guard else ()), sample)
    if only_list:
        for case in chosen:
            print(f"{case.name:60} {case.class_:24} {case.source}")
        return 0
    if not chosen:
        raise click.UsageError(
            f"no case {', '.join(patterns)}: name it GROUP/NAME; --list has all"
        )
    parsers = None
    if pair:
        first, second = pair.split("/")
        if first in WAITING:
            chosen = [case for case in chosen if case.name != BEGINS_IN_REASONING]
        parsers = {"qwen3": ["--reasoning-parser", first, "--tool-call-parser", second]}
    pattern = QUICK if quick else DRAFTS if drafts else None
    if guard and not keep:
        pattern = SCHEDULES
    if mtp is not None:
        pattern = "w1" if mtp == 0 else rf"mtp{mtp}#.*"
    asked: list[Job] = []
    for generated in (False, True):
        asked += jobs_for(
            [case for case in chosen if (group(case.name) != "suite") == generated],
            surfaces=list(surfaces or (SURFACES[:1] if generated else SURFACES)),
            reasoning="qwen3" if pair else reasoning,
            start=start,
            pattern=pattern or (DRAFTS if generated else None),
            schedules=list(schedules) or None,
            full=full,
        )
    kind = "plugin" if plugin else "stock" if stock else "patched"
    wanted = [(name, kind) for name in targets]
    if guard:
        wanted = [(targets[0], "stock"), (targets[-1], "patched")] if targets else []
    if reader:
        wanted = [(reader, "reader")]
    if not wanted:
        raise click.UsageError("nothing to judge: give a tree")
    reports: list[Report] = []
    for name, kind in wanted:
        began = time.monotonic()
        tree = Path(name) if reader else resolve(name, kind)
        report = Report(
            str(tree), kind, repeat(tree, kind, plugin, pair, patterns, sample)
        )
        if reader:
            documents = alone(Reader(tree), chosen, cuts)
            report.release = load().name
        else:
            adapter = TreeAdapter(
                tree, workers=jobs, log=log, plugin=plugin, parsers=parsers
            )
            documents = adapter.run(asked)
        for count, document in enumerate(documents, 1):
            report.add(document)
            if sys.stderr.isatty():
                print(f"\r{count}", end="\r", file=sys.stderr)
        report.seconds = time.monotonic() - began
        report.release = report.release or adapter.release
        if not guard:
            show(report, limit=failures)
        reports.append(report)
    for report in reports if keep else ():
        if report.by_corpus():
            table.keep_corpora(report, sample)
        if any(group(result["case"]) == "suite" for result in report.results):
            table.keep(report.document(), pair)
    if guard:
        return _compare(chosen, reports, failures, keep)
    return 0 if keep or all(report.is_right() for report in reports) else 1


def _compare(
    chosen: list[cases.Case], reports: list[Report], most: int, keep: bool
) -> int:
    worse, counts = compare(chosen, *(report.results for report in reports))
    for case in worse[: most or None]:
        print(case)
    for name, count in counts.items():
        print(
            f"{name}: {count['worse']} of {count['cases']} cases worse than stock, "
            f"{count['reasoned']} of them for a reason; {count['better']} better"
        )
    if keep:
        table.keep_guard(load(reports[-1].release).name, counts)
    return 0 if keep or all(case.reason for case in worse) else 1


if __name__ == "__main__":
    run_command.run_lane(lambda: command.main(standalone_mode=False) or 0)
