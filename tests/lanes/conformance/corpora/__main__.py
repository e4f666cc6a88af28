"""``python -m conformance.corpora``: how often a reader reads what the model meant.

Exit code 0: the corpora were judged, whatever came out; 2: usage.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from conformance.corpora import CORPORA, SUITE_VERSION
from conformance.corpora.case import Case
from conformance.corpora.reader import Reader, random_pieces, reading
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
    parser.add_argument("--seed", type=int, default=0, help="seed of the cuts")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="print so many a corpus"
    )
    parser.add_argument("--case", metavar="GLOB", help="only cases of such names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
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
    reader = Reader(opts.reader)
    began = time.monotonic()
    counts = {}
    for name in names:
        cases = [c for c in CORPORA[name]() if fnmatch(c.name, opts.case or "*")]
        counts[name] = _judge_reader(reader, name, cases, opts.seed, opts.cuts)
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
        document = {name: count.figures() for name, count in counts.items()}
        opts.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
