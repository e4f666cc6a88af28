# SPDX-License-Identifier: Apache-2.0
"""Run a long program so that its output is seen as it comes, and so that it and what it started end with this one."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from patchset import console, files, guard
from patchset.errors import (
    MissingToolError,
    NoSpaceError,
    PatchsetError,
    UnavailableError,
)

#: A line of the tool's own appears when the program has been silent for so many seconds.
HEARTBEAT = 20.0
#: What a program is given to clean up after itself when it is interrupted, in seconds.
GRACE = 30.0
_NO_NETWORK = re.compile(
    r"in name resolution|Could not resolve host|EAI_AGAIN|Network is unreachable",
    re.IGNORECASE,
)


class ProgramError(PatchsetError):
    """A program ended with an error; ``tail`` is the end of what it said, and ``shown`` whether users saw that."""

    def __init__(self, message: str, tail: str, *, shown: bool = True) -> None:
        if not shown and tail:
            message += f"; its last words: {end_of(tail.splitlines()[-1])}"
        hint = (
            "its output is above"
            if shown
            else "run the same command again when that is mended"
        )
        super().__init__(message, hint)
        self.tail = tail


def end_of(line: str) -> str:
    """Shorten a line from the front: the cause of an error is at its end."""
    line = line.strip()
    return line if len(line) <= 300 else f"…{line[-300:]}"


def run(
    arguments: Sequence[str | Path],
    *,
    prefix: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    heartbeat: float = HEARTBEAT,
    on_line: Callable[[str], None] | None = None,
    progress: Callable[[], str] | None = None,
) -> None:
    """Run a program and show each line it prints behind ``prefix``, or hand each to ``on_line`` instead.

    When it is silent for ``heartbeat`` seconds, ``progress`` is asked how far it is."""
    argv = [str(word) for word in arguments]
    if shutil.which(argv[0], path=(env or os.environ).get("PATH")) is None:
        raise MissingToolError(f"{argv[0]} is not installed")
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,
        # The guard outlives a process that is killed, until the program has ended: so do its locks.
        pass_fds=tuple(files.locks_held),
    )
    tail: deque[str] = deque(maxlen=15)
    start = time.monotonic()
    try:
        for line in _lines(child, heartbeat):
            if line is None:
                far = (
                    progress()
                    if progress
                    else f"at work for {console.duration(time.monotonic() - start)}"
                )
                console.note(f"  {prefix}: {far}")
                continue
            if line.strip():
                tail.append(line)
            if on_line:
                on_line(line)
            elif line.strip():
                console.note(f"  {prefix}: {line}")
    except BaseException:
        console.note(f"  {prefix}: told to stop, which can take a minute")
        _end(child)
        raise
    if status := child.wait():
        subcommand = next(
            (word for word in argv[1:] if word.isalpha()), ""
        )  # build, push
        name = f"{Path(argv[0]).name} {subcommand}".strip()
        if full := [line for line in tail if files.tells_of_no_space(line)]:
            hint = "free some space, then run the same command again"
            raise NoSpaceError(
                f"the disk is full: {name} said {end_of(full[-1])!r}", hint
            )
        if alone := [line for line in tail if _NO_NETWORK.search(line)]:
            hint = "check the network and the proxy's variables, then run the same command again"
            raise UnavailableError(
                f"{name} has no network; it said {end_of(alone[-1])!r}", hint
            )
        raise ProgramError(
            f"{name} ended with status {status}", "\n".join(tail), shown=on_line is None
        )


def _lines(child: subprocess.Popen[bytes], heartbeat: float) -> Iterator[str | None]:
    """What a program prints; None each time that it has been silent for ``heartbeat`` seconds."""
    lines: queue.Queue[bytes | None] = queue.Queue()

    def read() -> None:
        for raw in child.stdout or ():
            lines.put(raw)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            raw = lines.get(timeout=heartbeat)
        except queue.Empty:
            yield None
            continue
        if raw is None:
            return
        yield raw.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt the program's whole group; when it does not end in time, its guard ends it and all below it."""
    for number, seconds in ((signal.SIGINT, GRACE), (signal.SIGTERM, 3 * guard.GRACE)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(seconds)
            return
