# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.instructions``: what callgrind counts, a figure that another machine can be compared with.

The worker runs uninstrumented until it has imported and warmed up; then it is asked for one stream, and for everything but
the stream, and the counts of the two are subtracted.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from bench import places
from bench.cells import Cell
from bench.cells import Path as Way
from bench.subjects import Place, Subject, Worker
from patchset import console, files, release, run_command
from patchset.errors import MissingToolError, PatchsetError
from patchset.release import Release
from patchset.results import bench as kept
from patchset.series import patched_files

#: What is counted, in steps of 1 and 4 tokens.
_COUNTED: tuple[tuple[Way, str, int], ...] = (
    ("once", "string", 1_000),
    ("once", "markup", 1_000),
    ("once", "prose", 1_000),
    ("once", "calls64", 4_000),
    ("serving-once", "string", 1_000),
    ("serving-once", "prose", 1_000),
)
CELLS = tuple(Cell(path, workload, tokens, width) for path, workload, tokens in _COUNTED for width in (1, 4))

_CONTROL_S = 120
_TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def subjects_of(cell: Cell, subjects: Sequence[Subject]) -> list[Subject]:
    """Those of ``subjects`` that a cell says something about."""
    timed = replace(cell, path="serving" if cell.path == "serving-once" else "parser")
    return [subject for subject in subjects if subject.takes(timed)]


def count(
    cells: Sequence[Cell],
    subjects: Sequence[Subject],
    where: dict[str, Place],
    log: Path | None,
    advance: Callable[[Cell], None] = lambda cell: None,
) -> list[dict[str, Any]]:
    """Instructions per token of each cell and subject, opening the parser or answering the request included.

    One document a cell, with ``instructions`` by the subject's name.

    Raises:
        MissingToolError: there is no valgrind.
        PatchsetError: a subject fails, or callgrind does not say what it counted.
    """
    if not (shutil.which("valgrind") and shutil.which("callgrind_control")):
        raise MissingToolError("valgrind is not installed", "install it: apt-get install valgrind")
    documents = [{**cell.document(), "instructions": dict[str, float]()} for cell in cells]
    for worker_name in dict.fromkeys(subject.worker for subject in subjects):
        sharing = [subject for subject in subjects if subject.worker == worker_name]
        with _counter(where[worker_name], log) as counter:
            for cell, document in zip(cells, documents, strict=True):
                for subject in subjects_of(cell, sharing):
                    document["instructions"][subject.name] = round(counter.per_token(cell, subject), 1)
                    advance(cell)
    return documents


class _Counter:
    """A measuring process under callgrind."""

    def __init__(self, worker: Worker, out: Path) -> None:
        self._worker, self._out, self._dumps = worker, out, 0

    def per_token(self, cell: Cell, subject: Subject) -> float:
        """Instructions of one stream without what stands around it, per token."""
        # What is imported, translated and cached at the first stream is not counted, and slow to count.
        self._control("-i", "off")
        tokens = _ask(self._worker, subject, cell)
        self._control("-i", "on")
        _ask(self._worker, subject, cell)
        self._dump()
        counts = []
        for path in (cell.path, "idle"):
            _ask(self._worker, subject, replace(cell, path=path))
            counts.append(self._dump())
        return (counts[0] - counts[1]) / tokens

    def _dump(self) -> int:
        self._control("-d")
        self._dumps += 1
        return _total(self._out, self._dumps)

    def _control(self, *arguments: str) -> None:
        _control(self._worker.pid, *arguments, f"--vgdb-prefix={self._out.with_name('vgdb')}")


@contextlib.contextmanager
def _counter(place: Place, log: Path | None) -> Iterator[_Counter]:
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "callgrind"
        # Its pipes as well lie where they go with the folder, also when a run is interrupted.
        under = ("valgrind", f"--vgdb-prefix={out.with_name('vgdb')}", "--tool=callgrind", "--instr-atstart=no",
                 f"--callgrind-out-file={out}")  # fmt: skip
        worker = Worker(place, log, under)
        try:
            yield _Counter(worker, out)
        finally:
            worker.close()


def _ask(worker: Worker, subject: Subject, cell: Cell) -> int:
    sample = worker.ask(cell, subject.parser, 600.0)
    if "error" in sample:
        raise PatchsetError(f"{subject.name} under valgrind: {sample['error']}", "run again with --log FILE")
    tokens: int = sample["tokens"]
    return tokens


def _control(pid: int, *arguments: str) -> None:
    try:
        done = subprocess.run(
            ["callgrind_control", *arguments, str(pid)],
            capture_output=True, text=True, timeout=_CONTROL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PatchsetError(f"callgrind_control {arguments[0]} does not answer") from error
    if done.returncode:
        raise PatchsetError(f"callgrind_control {arguments[0]}: {done.stderr.strip()[-300:]}")


def _total(out: Path, number: int) -> int:
    dump = out.with_name(f"{out.name}.{number}")
    found = _TOTALS.search(dump.read_text(encoding="utf-8", errors="replace")) if dump.is_file() else None
    if found is None:
        raise PatchsetError(f"callgrind wrote no total into {dump.name}")
    return int(found[1])


def measure(pinned: Release, peers: bool, log: Path | None) -> dict[str, Any]:
    """Count for one release, show the table, and give its figures."""
    who, where = places.of_release(pinned, None, peers)
    total = sum(len(subjects_of(cell, who)) for cell in CELLS)
    with console.progress(f"instructions of {pinned.name}", total, unit="counts") as advance:
        found = count(CELLS, who, where, log, advance=lambda _: advance(1))
    console.table(table(pinned.name, found))
    return {"release": pinned.name, "series-sha256": patched_files.sha256(pinned), "instructions": found}


def table(name: str, found: Sequence[dict[str, Any]]) -> Table:
    """One line a cell: the patched tree's instructions a token, and their share of each other's."""
    out = Table(title=f"{name}: instructions per token; patched over the others")
    others = list(dict.fromkeys(one for cell in found for one in cell["instructions"] if one != "patched"))
    for column in ("path", "workload", "tokens", "width", "patched", *(f"/ {one}" for one in others)):
        out.add_column(column)
    for cell in found:
        counted = cell["instructions"]
        over = (f"{counted['patched'] / counted[one]:.3f}" if one in counted else "" for one in others)
        path = "serving" if cell["path"] == "serving-once" else "parser"
        out.add_row(
            path,
            cell["workload"],
            str(cell["tokens"]),
            str(cell["width"]),
            f"{counted['patched']:.0f}",
            *over,
        )
    return out


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("releases", nargs=-1, metavar="[RELEASE]...")
@click.option(
    "--peers/--no-peers", default=True, show_default=True, help="Count other parsers of the format as well."
)
@click.option(
    "--json", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here."
)
@click.option("--results", "keep", is_flag=True, help="Keep the figures in results/bench.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="What the measured code prints.")
def command(
    releases: tuple[str, ...], peers: bool, target: Path | None, keep: bool, log: Path | None
) -> None:
    """Count instructions per token of each RELEASE (the default one without it), stock beside patched, under valgrind."""
    documents = []
    for name in releases or (None,):
        found = measure(release.load(name), peers, log)
        documents.append(found)
        if keep:
            console.result(str(kept.take_instructions(found)))
    if target:
        files.write_text(target, json.dumps({"runs": documents}, indent=1) + "\n")
        console.result(str(target))


if __name__ == "__main__":
    run_command.run(command)
