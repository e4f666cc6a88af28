# SPDX-License-Identifier: Apache-2.0
"""What the user sees: progress on standard error, results on standard output."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape

from patchset.errors import PatchsetError, redact

err = Console(stderr=True, highlight=False, emoji=False)
out = Console(highlight=False, emoji=False)
#: What programs colour their words with.
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Seconds between two lines of progress.
_BETWEEN_LINES = 15
#: What a terminal obeys, or cannot encode: controls but for tab and line feed, changes
#: of the direction of writing, lone surrogates.
_OBEYED = dict.fromkeys(
    [
        *(set(range(0x20)) - {0x09, 0x0A}),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    ],
    "\N{REPLACEMENT CHARACTER}",
) | {0x0D: ""}


def printable(text: str) -> str:
    """Return a text of others, such as a program's output, with nothing that moves a
    terminal.
    """
    return _COLOURS.sub("", text).translate(_OBEYED)


def _plain(text: str) -> str:
    """Return a text as rich takes it: without credentials, and nothing that moves a
    terminal.
    """
    return escape(printable(redact(text)))


def note(text: str) -> None:
    """Print one line that says what is going on."""
    err.print(_plain(text), soft_wrap=True)


def result(*lines: object) -> None:
    """Print what was asked for on standard output, one line each."""
    for line in lines:
        out.print(_plain(str(line)), soft_wrap=True)


def show_error(error: PatchsetError) -> None:
    """Show what happened, and what to do next."""
    err.print(f"[bold red]error:[/] {_plain(error.message)}", soft_wrap=True)
    if error.hint:
        err.print(f"[bold]next:[/]  {_plain(error.hint)}", soft_wrap=True)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Announce a step, and say how long it took."""
    name = _plain(name)
    err.print(f"[bold cyan]>[/] {name}", soft_wrap=True)
    start = time.monotonic()
    yield
    err.print(f"  [dim]{name}: {time.monotonic() - start:.1f} s[/]", soft_wrap=True)


def progress(name: str, total: int, *, unit: str = "bytes") -> Callable[[int], None]:
    """Return the function that is told how much more is done, and says so every 15
    seconds.

    ``total`` is in ``unit``\\ s; bytes are shown as megabytes.
    """
    scale, word = (1e6, "MB") if unit == "bytes" else (1, unit)
    done, told = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        if time.monotonic() - told > _BETWEEN_LINES:
            told = time.monotonic()
            note(f"  {name}: {done / scale:.0f} of {total / scale:.0f} {word}")

    return advance


def duration(seconds: float) -> str:
    """Return seconds in words: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
