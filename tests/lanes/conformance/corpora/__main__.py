# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.corpora``: how often a reader reads what the model meant.

Exit status 0: the corpora were judged, whatever came out; 2: usage.
"""

import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from conformance.corpora import CORPORA, SUITE_VERSION
from conformance.corpora.case import Case
from conformance.corpora.reader import Reader, random_pieces, reading
from conformance.corpora.served import SCHEDULES, served
from conformance.corpora.verdict import Verdict, judge
from patchset import paths, results

READER = (
    Path(__file__).resolve().parents[4]
    / "patches/files/vllm/parser/qwen_tool_reader.py"
)


@dataclass
class Count:
    """The figures of a corpus.

    Attributes:
        cases: Cases with one intended reading.
        text: Cases whose calls are right and whose text is not.
        quoted: Cases in which something ran that was only quoted.
        varies: Cases whose reading depends on how the output was cut.
        ambiguous: Further cases, of which several readings can be defended.
        as_meant: How many of these were read as the model meant them.

    """

    cases: int = 0
    right: int = 0
    text: int = 0
    wrong: int = 0
    quoted: int = 0
    varies: int = 0
    ambiguous: int = 0
    as_meant: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, *, quoted: bool, ambiguous: bool) -> None:
        """Count a case."""
        if ambiguous:
            self.ambiguous += 1
            self.as_meant += verdict is Verdict.RIGHT
            return
        self.cases += 1
        self.quoted += quoted
        setattr(self, verdict.value, getattr(self, verdict.value) + 1)

    def figures(self) -> dict[str, int]:
        """Its numbers alone."""
        return {k: v for k, v in asdict(self).items() if k != "failures"}


def _judge_reader(reader: Reader, name: str, cases: list[Case], cuts: int) -> Count:
    """Judge a corpus, each output whole and in random pieces."""
    count = Count()
    for case in cases:
        try:
            events = reader.events(case, [case.output])
        except Exception as error:  # the code under test may raise anything
            count.add(Verdict.WRONG, quoted=False, ambiguous=bool(case.ambiguous))
            count.failures.append(f"{case.name}: {type(error).__name__}: {error}")
            continue
        read = reading(events)
        verdict, quoted = judge(case, read)
        count.add(verdict, quoted=quoted, ambiguous=bool(case.ambiguous))
        if verdict is not Verdict.RIGHT and not case.ambiguous:
            count.failures.append(_describe(case, verdict, quoted, events))
        rng = random.Random(f"0/{name}/{case.name}")
        for _ in range(cuts):
            pieces = random_pieces(case.output, rng)
            if reader.events(case, pieces) != events:
                count.varies += 1
                count.failures.append(f"{case.name}: varies, in the pieces {pieces}")
                break
    return count


def _judge_tree(
    tree: Path, workers: int, chosen: dict[str, list[Case]]
) -> dict[str, Count]:
    """Judge corpora by a tree's server: the worst of all ways of delivery counts."""
    counts = {name: Count() for name in chosen}
    cases = {f"{name}/{i}": c for name in chosen for i, c in enumerate(chosen[name])}
    found = served(tree, cases.items(), workers)
    for number, (key, readings) in enumerate(found, 1):
        case, count = cases[key], counts[key.rpartition("/")[0]]
        worst, ran = Verdict.RIGHT, False
        for way, read in readings.items():
            verdict, quoted = judge(case, read, served=True)
            if verdict is not Verdict.RIGHT and not case.ambiguous:
                what = ", something quoted ran" if quoted else ""
                count.failures.append(
                    f"{case.name} ({way}): {verdict.value}{what}\n  {case.output!r}\n"
                    f"  {read}"
                )
            worst = max(worst, verdict, key=list(Verdict).index)
            ran = ran or quoted
        count.add(worst, quoted=ran, ambiguous=bool(case.ambiguous))
        read_first = next(iter(readings.values()))
        count.varies += any(read != read_first for read in readings.values())
        if sys.stderr.isatty():
            print(f"\r{number}/{len(cases)}", end="\r", file=sys.stderr)
    return counts


def _keep(file: Path, row: str, how: dict[str, Any], counts: dict[str, Count]) -> None:
    """Put the figures into a file, beside those of other names."""
    rows = json.loads(file.read_text()) if file.is_file() else {}
    # A file of results/corpora is named after its release.
    of_release = (paths.patches_dir() / file.stem).is_dir()
    kind = row if of_release else "stock"
    rows[row] = {
        **results.record(SUITE_VERSION, file.stem, kind),
        **how,
        "corpora": {name: count.figures() for name, count in counts.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_text(rows))


def _text(rows: dict[str, Any]) -> str:
    """The file's text, a corpus a line, so that two versions can be compared."""
    parts = []
    for row, document in sorted(rows.items()):
        head = {k: v for k, v in document.items() if k != "corpora"}
        figures = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(found)}"
            for name, found in document["corpora"].items()
        )
        start = json.dumps(head).removesuffix("}")
        parts.append(f'{json.dumps(row)}: {start}, "corpora": {{\n{figures}\n}}}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _sample(name: str, cases: list[Case], most: int) -> list[Case]:
    """At most so many of a corpus's cases, always the same ones."""
    if not most or len(cases) <= most:
        return cases
    return random.Random(name).sample(cases, most)


def _describe(
    case: Case, verdict: Verdict, quoted: bool, events: list[tuple[str, str]]
) -> str:
    ran = ", something quoted ran" if quoted else ""
    lines = [f"{case.name}: {verdict.value}{ran}", "  output:"]
    lines += [f"    {line}" for line in case.output.split("\n")]
    lines += ["  read:", *(f"    {kind} {text!r}" for kind, text in events)]
    return "\n".join(lines)


_COLUMNS = ("cases", "right", "text", "wrong", "quoted", "varies", "ambiguous")


def _show(counts: dict[str, Count]) -> None:
    """Print the table."""
    width = max(map(len, counts)) + 1
    print(f"{'':{width}}" + "".join(f"{column:>10}" for column in _COLUMNS))
    for name, count in counts.items():
        figures = count.figures()
        row = "".join(f"{figures[column]:>10}" for column in _COLUMNS[:-1])
        ambiguous = f"{count.as_meant}/{count.ambiguous}" if count.ambiguous else ""
        print(f"{name:{width}}{row}{ambiguous:>10}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--reader", type=Path, default=READER, help="A qwen_tool_reader.py.")
@click.option("--tree", type=Path, help="Judge a vLLM source tree instead.")
@click.option("--jobs", default=1, show_default=True, help="Processes for the tree.")
@click.option(
    "--sample",
    default=0,
    metavar="N",
    help="At most N cases of a corpus, always the same ones.",
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
@click.option(
    "--failures", default=0, metavar="N", help="Print so many of each corpus."
)
@click.option(
    "--json", "file", type=Path, metavar="FILE", help="Put the figures into this file."
)
@click.option(
    "--row",
    default="reader",
    show_default=True,
    metavar="NAME",
    help="Their name in the file: stock, patched.",
)
@click.option("--list", "only_list", is_flag=True, help="Print the corpora.")
def command(
    reader: Path,
    tree: Path | None,
    jobs: int,
    sample: int,
    patterns: tuple[str, ...],
    cuts: int,
    failures: int,
    file: Path | None,
    row: str,
    only_list: bool,
) -> None:
    """Judge a reader by seeded corpora."""
    names = [
        name for name in CORPORA if any(fnmatch(name, pattern) for pattern in patterns)
    ]
    if not names:
        raise click.UsageError("no such corpus; --list prints their names")
    if only_list:
        for name in names:
            print(f"{name:50} {sum(1 for _ in CORPORA[name]()):>6} cases")
        return
    began = time.monotonic()
    chosen = {name: _sample(name, list(CORPORA[name]()), sample) for name in names}
    if tree:
        counts = _judge_tree(tree, jobs, chosen)
    else:
        loaded = Reader(reader)
        counts = {
            name: _judge_reader(loaded, name, cases, cuts)
            for name, cases in chosen.items()
        }
    _show(counts)
    for name, count in counts.items():
        for failure in count.failures[:failures]:
            print(f"\n{name}: {failure}")
    total = sum(count.cases + count.ambiguous for count in counts.values())
    seconds = time.monotonic() - began
    print(f"{total} cases, suite version {SUITE_VERSION}, {seconds:.0f} s")
    if file:
        ways = list(SCHEDULES) if tree else []
        _keep(file, row, {"sample": sample, "ways": ways}, counts)


if __name__ == "__main__":
    command()
