"""``python -m conformance.corpora``: how often a reader reads what the model meant.

Exit code 0: the corpora were judged, whatever came out; 1: the fuzzer found
something; 2: usage.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from conformance.corpora import CORPORA, SUITE_VERSION
from conformance.corpora.case import Case
from conformance.corpora.fuzz import search
from conformance.corpora.reader import Reader, random_pieces, reading
from conformance.corpora.served import SCHEDULES, served
from conformance.corpora.verdict import Verdict, judge

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


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="conformance.corpora", description="Judge a reader by seeded corpora."
    )
    parser.add_argument(
        "--reader", type=Path, default=READER, help="qwen_tool_reader.py to judge"
    )
    parser.add_argument(
        "--tree", type=Path, metavar="DIR", help="judge a vLLM source tree instead"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter for the tree's server"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes for the tree's server"
    )
    parser.add_argument(
        "--ways",
        nargs="+",
        choices=SCHEDULES,
        default=SCHEDULES,
        help="how the tree's server delivers (default: all)",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="at most N cases of a corpus, always the same ones",
    )
    parser.add_argument(
        "--corpus", nargs="+", default=["*"], metavar="NAME", help="names or globs"
    )
    parser.add_argument(
        "--no-holdout", action="store_true", help="leave the hold-out corpora out"
    )
    parser.add_argument(
        "--cuts",
        type=int,
        default=2,
        metavar="N",
        help="random cuts of each output into pieces (default: 2)",
    )
    parser.add_argument(
        "--fuzz",
        type=int,
        default=0,
        metavar="N",
        help="only cut N outputs, half of them spliced from several, at random",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of --cuts and --fuzz")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="print so many a corpus"
    )
    parser.add_argument("--case", metavar="GLOB", help="only cases of such names")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put the figures into this file"
    )
    parser.add_argument(
        "--row",
        default="reader",
        metavar="NAME",
        help="their name in the file: stock, patched (default: reader)",
    )
    parser.add_argument("--list", action="store_true", help="print the corpora")
    return parser.parse_args(argv)


def _judge_reader(
    reader: Reader, name: str, cases: list[Case], seed: int, cuts: int
) -> Count:
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
        rng = random.Random(f"{seed}/{name}/{case.name}")
        for _ in range(cuts):
            pieces = random_pieces(case.output, rng)
            if reader.events(case, pieces) != events:
                count.varies += 1
                count.failures.append(f"{case.name}: varies, in the pieces {pieces}")
                break
    return count


def _judge_tree(
    opts: argparse.Namespace, chosen: dict[str, list[Case]]
) -> dict[str, Count]:
    """Judge corpora by a tree's server: the worst of all ways of delivery counts."""
    counts = {name: Count() for name in chosen}
    cases = {f"{name}/{i}": c for name in chosen for i, c in enumerate(chosen[name])}
    found = served(
        opts.tree, opts.python, cases.items(), workers=opts.jobs, ways=opts.ways
    )
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


def _keep(opts: argparse.Namespace, counts: dict[str, Count]) -> None:
    """Put the figures into a file, beside those of other names."""
    rows = json.loads(opts.json.read_text()) if opts.json.is_file() else {}
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    rows[opts.row] = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "suite": SUITE_VERSION,
        "sample": opts.sample,
        "ways": list(opts.ways) if opts.tree else [],
        "corpora": {name: count.figures() for name, count in counts.items()},
    }
    opts.json.parent.mkdir(parents=True, exist_ok=True)
    opts.json.write_text(_text(rows))


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


def _fuzz(opts: argparse.Namespace, cases: list[Case]) -> int:
    """Search for outputs whose reading depends on how they were cut."""
    began, failed = time.monotonic(), 0
    found = search(Reader(opts.reader), cases, opts.fuzz, opts.seed)
    for key, case, pieces, problem in found:
        failed += 1
        if failed <= max(opts.failures, 1):
            print(f"run {key}: {problem}\n  {case.output!r}\n  {pieces}")
            print(f"  cut: {case.cut}, in the reasoning: {case.in_reasoning}")
    print(
        f"{failed} of {opts.fuzz} runs failed, seed {opts.seed}, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


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


def main() -> int:
    """Judge what the command line asks for."""
    opts = _options(sys.argv[1:])
    names = [
        name
        for name in CORPORA
        if any(fnmatch(name, pattern) for pattern in opts.corpus)
        and not (opts.no_holdout and name.startswith("holdout"))
    ]
    if not names:
        print("no such corpus; --list prints their names", file=sys.stderr)
        return 2
    if opts.list:
        for name in names:
            print(f"{name:50} {sum(1 for _ in CORPORA[name]()):>6} cases")
        return 0
    began = time.monotonic()
    chosen = {}
    for name in names:
        cases = [c for c in CORPORA[name]() if fnmatch(c.name, opts.case or "*")]
        if cases:
            chosen[name] = _sample(name, cases, opts.sample)
    if opts.fuzz:
        return _fuzz(opts, [case for name in chosen for case in chosen[name]])
    if opts.tree:
        counts = _judge_tree(opts, chosen)
    else:
        reader = Reader(opts.reader)
        counts = {
            name: _judge_reader(reader, name, cases, opts.seed, opts.cuts)
            for name, cases in chosen.items()
        }
    _show(counts)
    for name, count in counts.items():
        for failure in count.failures[: opts.failures]:
            print(f"\n{name}: {failure}")
    total = sum(count.cases + count.ambiguous for count in counts.values())
    print(
        f"{total} cases, suite version {SUITE_VERSION}, seed {opts.seed}, "
        f"{time.monotonic() - began:.0f} s"
    )
    if opts.json:
        _keep(opts, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
