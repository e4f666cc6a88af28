# SPDX-License-Identifier: Apache-2.0
"""Run a program, and end it with all that it started when whoever called this dies, however that died.

``python guard.py PARENT PROGRAM ARGUMENT…``; stands alone, as it starts anew. Linux gives both means (prctl(2)): a signal
on a parent's death, and orphans of any group or session as children of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

_PARENT_DEATH_SIGNAL, _TAKE_ORPHANS = 1, 36
#: What programs are given to end in order, in seconds.
GRACE = 5.0


def descendants(of: int) -> set[int]:
    """The processes below one, by ``/proc``."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = (
                place.read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()[:2]
            )
            if state != "Z":
                parents[int(place.parent.name)] = int(parent)
    found = {of}
    while (
        more := {child for child, parent in parents.items() if parent in found} - found
    ):
        found |= more
    return found - {of}


def end_all() -> None:
    """Ask everything below this process to end, and kill what does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        asked: set[int] = set()
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left - asked if number == signal.SIGTERM else left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            asked |= left
            time.sleep(0.05)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all()
    os._exit(128 + number)


def main() -> int:
    """The program's exit status; 128 and its number for a signal."""
    parent, *words = sys.argv[1:]
    # Ctrl-C is meant for the program, which is in the same group.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, _end)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)
        prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before this process could be told
        return 128 + signal.SIGTERM
    status = subprocess.Popen(words).wait()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
