# SPDX-License-Identifier: Apache-2.0
"""``python -m tables``: write the documents' tables; say which are out of date."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

import bench
import clients
import conformance
import grammars
import history
import judges
import peers
import prefix_cache
import results
from bench import kept
from clients import table as clients_table
from conformance import corpora
from conformance import table as conformance_table
from grammars import table as grammars_table
from history import table as history_table
from judges import table as judges_table
from patchset import console, files, paths, run_command
from patchset.release import Release, releases
from peers import table as peers_table
from prefix_cache import table as prefix_cache_table
from server import check as receipts
from tables import series

#: What a column counts: its heading, and the harms of the suite.
FAULTS = {
    "something ran unasked": ("ran",),
    "wrong values": ("bytes",),
    "calls lost": ("lost",),
    "text lost or misplaced": ("text",),
}
_LEFT, _TOP, _CELL, _ROW = 76, 64, 74, 26


def draw(releases: list[Release]) -> str:
    """Return the picture of the releases that have a row of stock and one of patched.

    A cell is the share of adversarial responses at k = 5 whose worst harm it is.
    """
    shown = [
        release
        for release in releases
        if set(results.KINDS) <= set(results.read(conformance_table.LANE, release.name))
    ]
    rows = [(_TOP + _ROW * number, release) for number, release in enumerate(shown)]
    width = _LEFT + 2 * _CELL * len(FAULTS) + 4
    height = _TOP + _ROW * len(shown) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, (fault, harms) in enumerate(FAULTS.items()):
        x = _LEFT + 2 * _CELL * column
        lines.append(f'<text x="{x + _CELL}" y="22" font-weight="bold">{fault}</text>')
        for side, kind in enumerate(results.KINDS):
            left = x + _CELL * side
            middle = left + _CELL // 2
            lines.append(f'<text x="{middle}" y="48">{kind}</text>')
            for y, release in rows:
                share = conformance_table.share(release, kind, harms)
                box = f'x="{left + 1}" y="{y}" width="{_CELL - 2}" height="{_ROW - 2}"'
                lines += [
                    f'<rect {box} fill="{_colour(share)}"/>',
                    f'<text x="{middle}" y="{y + 16}">{share}</text>',
                ]
    lines += [
        f'<text x="{_LEFT // 2}" y="{y + 16}">{release.name}</text>'
        for y, release in rows
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _colour(share: str) -> str:
    """Return green for none, else red, the deeper the more; grey if it was not run."""
    number, _, unit = share.partition(" ")
    if unit != "%":
        return "#dddddd"
    if number == "0":
        return "#9fd8a4"
    return f"hsl(6, 85%, {max(55, 88 - int(number))}%)"


#: The suite version of each lane that keeps rows.
SUITES = {
    "conformance": conformance.SUITE_VERSION,
    "corpora": corpora.SUITE_VERSION,
    "bench": bench.SUITE_VERSION,
    "clients": clients.SUITE_VERSION,
    "prefix_cache": prefix_cache.SUITE_VERSION,
    grammars.LANE: grammars.SUITE_VERSION,
    history.LANE: history.SUITE_VERSION,
    "peers": peers.SUITE_VERSION,
    **judges.LANES,
}

#: The newest release of each kind of parser.
SUMMARY = ("v0.33.0", "v0.32.0", "v0.23.0")
HARMS = {
    "ran something unasked": ("ran",),
    "calls wrong or lost": ("bytes", "lost"),
}


def summary_table(releases: list[Release]) -> str:
    """Return what a user feels of a release of each kind, stock → patched; below, the
    oldest day of these figures, and what has changed since.
    """
    shown = [release for release in releases if release.name in SUMMARY]
    rows = [
        [
            release.name,
            *(
                " → ".join(
                    conformance_table.share(release, kind, harms)
                    for kind in results.KINDS
                )
                for harms in HARMS.values()
            ),
            results.change(results.read("bfcl", release.name), _ordinary),
            kept.cost(release),
        ]
        for release in shown
    ]
    head = f"release | {' | '.join(HARMS)} | ordinary calls wrong | µs a token"
    return f"{results.table(head, rows)}\n{_taken(shown)}\n"


def read(lane: str, release: str) -> dict[str, results.Cell]:
    """Return the rows of a lane by name; the bench has one, of the patched tree."""
    if lane != "bench":
        return results.read(lane, release)
    run = kept.read(release)
    return {"patched": run} if run else {}


def _taken(releases: list[Release]) -> str:
    """Return when the oldest row of the summary was taken, and whether all are of
    today's series and suite.
    """
    runs = [
        (row["date"], results.outdated(row, SUITES[lane], release.name))
        for release in releases
        for lane in ("bench", "conformance", "bfcl")
        for kind, row in read(lane, release.name).items()
        if kind in results.KINDS
    ]
    day = min((day for day, _ in runs), default=results.NOT_RUN)
    old = [changed for _, changed in runs if changed]
    names = {"series": "the patches", "suite": "the suite"}
    what = " or ".join(sorted({names[name] for changed in old for name in changed}))
    earlier = f"; {len(old)} were made before the latest change of {what}"
    return f"The oldest of these {len(runs)} runs is of {day}{earlier if old else ''}."


def _ordinary(run: results.Cell) -> str:
    """Return wrong answers of BFCL's at k = 5."""
    return f"{run['possible'] - run['right']['k=5']} of {run['possible']}"


#: The page of all tables: its headings, and what makes the table below each.
TABLES: dict[str, Callable[[list[Release]], str]] = {
    "Releases": series.releases_table,
    "Patches": series.patches_table,
    "Conformance": conformance_table.table,
    "Other reasoning parsers": conformance_table.pairs_table,
    "Plugin": conformance_table.plugin_table,
    "Corpora": conformance_table.corpora_table,
    "Ordinary calls": judges_table.bfcl,
    "canitoolcall": judges_table.canitoolcall,
    "Cost": kept.table,
    "Cost of the API process": kept.process_table,
    "Clients": clients_table.table,
    "Servers": partial(receipts.table, target="cpu"),
    "Runs on GPUs": partial(receipts.table, target="cuda"),
    "Cached prefixes": prefix_cache_table.table,
    "Grammars": grammars_table.table,
    "History": history_table.table,
    "Rust frontend": judges_table.rust,
    "Other engines": peers_table.table,
}


def page(releases: list[Release]) -> str:
    parts = [
        "# Tables\n\nMade by `nox -s tables`; [results](results.md) explains them.\n"
    ]
    parts += (f"## {name}\n\n{make(releases)}" for name, make in TABLES.items())
    return "\n".join(parts)


def readme(releases: list[Release]) -> str:
    text = (paths.project_root() / "README.md").read_text(encoding="utf-8")
    return results.put(text, "table: summary", summary_table(releases))


#: What is written of the results, below the project's root.
DOCUMENTS = {
    Path("README.md"): readme,
    Path("docs/tables.md"): page,
    Path("docs/faults.svg"): draw,
}


def stale(releases: list[Release]) -> list[str]:
    """Return one line for each lane and release whose rows are out of date."""
    return [
        line
        for lane, suite in SUITES.items()
        for line in results.warnings(lane, suite, releases, read)
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Write nothing; name what would change.")
def command(check: bool) -> None:
    """Write docs/tables.md, docs/faults.svg and the summary of README.md.

    Rows of an earlier series or suite are shown with their day and named here.
    """
    newest_first = list(reversed(releases()))
    for name, make in DOCUMENTS.items():
        path = paths.project_root() / name
        text = make(newest_first)
        if path.is_file() and text == path.read_text(encoding="utf-8"):
            console.note(f"{name}: tables are up to date")
        elif check:
            console.note(f"warning: {name}: tables are out of date; run nox -s tables")
        else:
            files.write_text(path, text)
            console.note(f"{name}: tables updated")
    for line in stale(newest_first):
        console.note(f"warning: {line}")


if __name__ == "__main__":
    run_command.run(command)
