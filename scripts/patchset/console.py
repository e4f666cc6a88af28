# SPDX-License-Identifier: Apache-2.0
"""What the user sees: progress and notes on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from patchset.errors import PatchsetError, redact

err = Console(stderr=True, highlight=False)
out = Console(highlight=False)


def note(text: str) -> None:
    """One line that says what is going on."""
    err.print(escape(redact(text)), soft_wrap=True)


def result(*lines: object) -> None:
    """What was asked for, on standard output, one line each."""
    for line in lines:
        out.print(escape(str(line)), soft_wrap=True)


def table(rows: Table) -> None:
    """A table on standard output; as wide as its cells where there is no terminal, so that a log loses nothing."""
    if out.is_terminal:
        out.print(rows)
    else:
        needed = Measurement.get(out, out.options.update(max_width=1000), rows).maximum
        Console(file=out.file, width=needed, highlight=False).print(rows)


def show_error(error: PatchsetError) -> None:
    """What happened, and what to do next."""
    err.print(f"[bold red]error:[/] {escape(error.message)}", soft_wrap=True)
    if error.hint:
        err.print(f"[bold]next:[/]  {escape(error.hint)}", soft_wrap=True)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Announce a step, and say how long it took."""
    name = redact(name)
    err.print(f"[bold cyan]>[/] {escape(name)}", soft_wrap=True)
    start = time.monotonic()
    yield
    err.print(
        f"  [dim]{escape(name)}: {time.monotonic() - start:.1f} s[/]", soft_wrap=True
    )


@contextlib.contextmanager
def progress(
    name: str, total: int, *, unit: str = "bytes"
) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line every tenth, or half a minute, in a log; the yielded function advances it.

    ``total`` is in ``unit``\\ s ("bytes" shows sizes and speed, any other word counts things).
    """
    if err.is_terminal:
        columns = [DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
        counted = columns if unit == "bytes" else [MofNCompleteColumn()]
        shown = (TextColumn("  {task.description}"), BarColumn(), *counted)
        with Progress(*shown, console=err, transient=True) as bar:
            task = bar.add_task(escape(name), total=total)
            yield lambda count: bar.advance(task, count)
        return
    done, told, last = 0, 0.0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, told, last
        done += count
        now = time.monotonic()
        if not total or done / total <= told:
            return
        if done >= total or done / total >= told + 0.1 or now - last > 30:
            told, last = done / total, now
            note(f"  {name}: {how_far(done, total, unit)}")

    yield advance


def duration(seconds: float) -> str:
    """Seconds in words: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def how_far(done: int, total: int, unit: str = "bytes") -> str:
    """The part that is done; how long the rest takes would be a guess."""
    scale, word = (1e9, "GB") if total >= 1e9 else (1e6, "MB")
    what = f"{done} of {total} {unit}"
    if unit == "bytes":
        what = f"{done / scale:.1f} of {total / scale:.1f} {word}"
    return f"{what} ({done / total:.0%})"
