# SPDX-License-Identifier: Apache-2.0
"""Instructions of a workload, counted by valgrind's callgrind: a figure that another machine can be compared with.

The worker runs uninstrumented until it has imported and warmed up; then it is asked for one stream, and for everything but
the stream, and the counts of the two are subtracted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.cells import Cell
from bench.subjects import Place, Subject, Worker
from patchset.errors import MissingToolError, PatchsetError

#: What is counted: one string argument of 1 000 tokens, in steps of 4.
CELL = Cell("once", "string", 1_000, 4)

_CONTROL_S = 120
_TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def per_token(subject: Subject, place: Place, log: Path | None) -> float:
    """Instructions per token of :data:`CELL`, opening the parser included.

    Raises:
        MissingToolError: there is no valgrind.
        PatchsetError: the workload fails, or callgrind does not say what it counted.
    """
    if not (shutil.which("valgrind") and shutil.which("callgrind_control")):
        raise MissingToolError("valgrind is not installed", "install it: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "callgrind"
        under = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}")
        worker = Worker(place, log, under)
        try:
            tokens = _ask(worker, subject, CELL)
            _control(worker.pid, "-i", "on")
            counts = []
            for cell in (CELL, replace(CELL, path="idle")) * 2:
                _ask(worker, subject, cell)
                _control(worker.pid, "-d")
                counts.append(_total(out, len(counts) + 1))
        finally:
            worker.close()
    # The first pair also translates code and fills caches.
    return (counts[2] - counts[3]) / tokens


def _ask(worker: Worker, subject: Subject, cell: Cell) -> int:
    sample = worker.ask(cell, subject.parser, 60.0)
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
