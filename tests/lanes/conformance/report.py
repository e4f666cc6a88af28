"""What a run found: counted into a matrix, printed, and written as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.schedule import COLUMNS, column
from patchset import files


@dataclass
class Cell:
    """Right answers of all; ``near`` of the wrong ones differ in white space only."""

    right: int = 0
    all: int = 0
    near: int = 0


@dataclass
class Report:
    """The results of one target (a release's tree, or a server)."""

    label: str
    kind: str
    repeat: str
    release: str = "?"
    seconds: float = 0.0
    streams: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)

    def add(self, document: dict[str, Any]) -> None:
        """Take in what the host sent for a job."""
        self.results += document["results"]
        self.streams += document["streams"]

    def matrix(self) -> dict[tuple[str, str], dict[str, Cell]]:
        """Cells by (surface, reasoning parser) and column."""
        out: dict[tuple[str, str], dict[str, Cell]] = defaultdict(
            lambda: defaultdict(Cell)
        )
        for result in self.results:
            row = out[(result["surface"], result["reasoning"])]
            for name in result["right"]:
                cell = row[column(name)]
                cell.right, cell.all = cell.right + 1, cell.all + 1
            for name in result["wrong"]:
                cell = row[column(name)]
                cell.all, cell.near = cell.all + 1, cell.near + (name in result["near"])
        order = {"chat": 0, "responses": 1, "messages": 2}
        return {
            k: dict(out[k])
            for k in sorted(out, key=lambda k: (order.get(k[0], 9), k[1]))
        }

    def failures(self) -> list[dict[str, Any]]:
        """One entry for each case, start and surface that went wrong: how often, and the first schedule's problems."""
        out = []
        for result in sorted(
            self.results, key=lambda r: (r["case"], r["surface"], r["start"])
        ):
            if result["wrong"]:
                name, problems = next(iter(result["wrong"].items()))
                out.append(
                    {
                        "case": result["case"],
                        "class": result["class"],
                        "surface": result["surface"],
                        "start": result["start"],
                        "wrong": len(result["wrong"]),
                        "all": len(result["wrong"]) + len(result["right"]),
                        "near": len(result["near"]),
                        "schedule": name,
                        "problems": problems,
                        "repeat": self.command(result, name),
                    }
                )
        return out

    def command(self, result: dict[str, Any], name: str) -> str:
        """The one line that repeats exactly one request."""
        return f"{self.repeat} --case {result['case']} --surface {result['surface']} --start {result['start']} --schedule '{name}'"

    def by_case(self) -> dict[str, Cell]:
        """Right of all for each case, over surfaces, starts and schedules."""
        out: dict[str, Cell] = defaultdict(Cell)
        for r in self.results:
            cell = out[r["case"]]
            cell.right += len(r["right"])
            cell.near += len(r["near"])
            cell.all += len(r["right"]) + len(r["wrong"])
        return dict(sorted(out.items()))

    def differing(self) -> list[str]:
        """Implementation-defined cases that are read otherwise than by us."""
        return sorted({r["case"] for r in self.results if r["differs"]})

    def totals(self) -> Cell:
        """Over everything."""
        total = Cell()
        for cell in self.by_case().values():
            total.right, total.all, total.near = (
                total.right + cell.right,
                total.all + cell.all,
                total.near + cell.near,
            )
        return total

    def classes(self) -> dict[str, tuple[int, int]]:
        """(cases wholly right, cases) for each class."""
        cells, of = self.by_case(), {r["case"]: r["class"] for r in self.results}
        every, whole = (
            Counter(of.values()),
            Counter(of[n] for n, c in cells.items() if c.right == c.all),
        )
        return {
            k: (whole[k], every[k])
            for k in ("must", "must-not", "implementation-defined")
            if every[k]
        }

    def document(self) -> dict[str, Any]:
        """As JSON."""
        total = self.totals()
        return {
            "label": self.label,
            "kind": self.kind,
            "release": self.release,
            "seconds": round(self.seconds, 1),
            "streams": self.streams,
            "right": total.right,
            "all": total.all,
            "white_space_only": total.near,
            "classes": {
                k: {"right": a, "all": b} for k, (a, b) in self.classes().items()
            },
            "matrix": [
                {
                    "surface": s,
                    "reasoning": r,
                    **{c: vars(cell) for c, cell in row.items()},
                }
                for (s, r), row in self.matrix().items()
            ],
            "cases": {n: vars(c) for n, c in self.by_case().items()},
            "differs": self.differing(),
            "failures": self.failures(),
        }


def write_json(path: str, reports: list[Report]) -> None:
    """All targets of a run in one file."""
    document = {
        "format": 1,
        "columns": list(COLUMNS),
        "targets": [r.document() for r in reports],
    }
    files.write_text(Path(path), json.dumps(document, ensure_ascii=False, indent=1))


def show(report: Report, *, limit: int) -> None:
    """The matrix and the first failures, in the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if Console().is_terminal else 170)
    total = report.totals()
    table = Table(
        title=f"{report.label} ({report.kind}): {total.right} of {total.all} right, {total.near} of the others wrong in white space only",
        caption="right/all; ~n: wrong in white space only",
        title_justify="left",
    )
    table.add_column("surface")
    table.add_column("reasoning")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for (surface, reasoning), row in report.matrix().items():
        cells = []
        for name in COLUMNS:
            cell = row.get(name, Cell())
            style = (
                "dim"
                if not cell.all
                else "green"
                if cell.right == cell.all
                else "yellow"
                if cell.right + cell.near == cell.all
                else "red"
            )
            near = f" ~{cell.near}" if cell.near else ""
            cells.append(
                f"[{style}]{cell.right}/{cell.all}{near}[/]"
                if cell.all
                else "[dim]-[/]"
            )
        table.add_row(surface, reasoning, *cells)
    console.print(table)
    words = ", ".join(f"{k} {a}/{b}" for k, (a, b) in report.classes().items())
    console.print(
        f"cases wholly right: {words}; {report.streams} responses in {report.seconds:.0f} s",
        highlight=False,
    )
    if report.differing():
        console.print(
            f"implementation-defined, read otherwise: {', '.join(report.differing())}",
            highlight=False,
        )
    for failure in report.failures()[:limit]:
        console.print(
            f"\n[red]wrong[/] [bold]{failure['case']}[/] {failure['surface']} start={failure['start']} "
            f"({failure['wrong']} of {failure['all']} schedules; first: {failure['schedule']})",
            highlight=False,
        )
        for problem in failure["problems"]:
            console.print(f"  {escape(problem)}", highlight=False, soft_wrap=True)
        console.print(
            f"  [dim]{escape(failure['repeat'])}[/]", highlight=False, soft_wrap=True
        )
    left = len(report.failures()) - limit
    if left > 0 and limit:
        console.print(
            f"\n… and {left} more (--failures N, --json FILE)",
            highlight=False,
        )
