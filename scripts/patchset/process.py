# SPDX-License-Identifier: Apache-2.0
"""Run a long program so that its output is seen, and so that it ends with this one."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from patchset import console, files
from patchset.errors import (
    MissingToolError,
    NoSpaceError,
    PatchsetError,
    UnavailableError,
    redact,
)

#: Seconds between two notes that a program is at work.
HEARTBEAT = 30.0
#: Seconds that an interrupted program has to clean up, and then to end.
GRACE, LAST_GRACE = 30.0, 5.0
_NO_NETWORK = re.compile(
    r"in name resolution|Could not resolve (host|')|Could not connect to|EAI_AGAIN|"
    r"Network is unreachable",
    re.IGNORECASE,
)


class ProgramError(PatchsetError):
    """A program ended with an error; ``tail`` is the end of its output."""

    def __init__(self, message: str, tail: str) -> None:
        super().__init__(message, "its output is above")
        self.tail = tail


def end_of(text: str) -> str:
    """Return a text's last line, without its front: the cause of an error is last."""
    line = redact(text.strip().rpartition("\n")[2])
    return line if len(line) <= 300 else f"…{line[-300:]}"


def run(
    arguments: Sequence[str | Path],
    *,
    prefix: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    wordy: bool = False,
) -> None:
    """Run a program and show each line it prints behind ``prefix``.

    Args:
        arguments: The program and its arguments.
        prefix: Stands before each line, and names the program in notes.
        env: Its environment; this process's without it.
        cwd: Its folder.
        wordy: It prints much: show its lines only at a heartbeat, which shows the
            last one, and the end when it fails.

    Raises:
        MissingToolError: it is not installed.
        NoSpaceError: it says that the disk is full.
        UnavailableError: it says that there is no network.
        ProgramError: it ends with another status than 0.
    """
    # setpriv(1): when this process dies, however it does, the program is told to end.
    argv = ["setpriv", "--pdeathsig", "TERM", "--", *map(str, arguments)]
    for program in ("setpriv", str(arguments[0])):
        if shutil.which(program, path=(env or os.environ).get("PATH")) is None:
            raise MissingToolError(
                f"{program} is not installed", "install it; setpriv is in util-linux"
            )
    tail: deque[str] = deque(maxlen=15)
    ended = threading.Event()
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,
        # Locks are held until the program has ended, even if this process is killed.
        pass_fds=tuple(files.locks_held),
    )
    try:
        threading.Thread(target=_tell, args=(prefix, tail, ended), daemon=True).start()
        pipe = cast(io.BufferedReader, child.stdout)
        # Of a line that is written over, each state comes with its carriage return.
        for raw in io.TextIOWrapper(pipe, "utf-8", errors="replace", newline=""):
            if not (line := raw.strip("\r\n")).strip():
                continue
            tail.append(line)
            if not wordy and not raw.endswith("\r"):
                console.note(f"  {prefix}: {line}")
    except BaseException:
        console.note(f"  {prefix}: told to stop, which can take a minute")
        end(child)
        raise
    finally:
        ended.set()
    if status := child.wait():
        for line in tail if wordy else ():
            console.note(f"  {prefix}: {line}")
        raise _failure(str(arguments[0]), status, tail)


def _tell(prefix: str, tail: deque[str], ended: threading.Event) -> None:
    """Say now and then that a program is at work, and how far, until it has ended."""
    start = time.monotonic()
    while not ended.wait(HEARTBEAT):
        past = console.duration(time.monotonic() - start)
        last = f": {tail[-1].strip()[:160]}" if tail else ""
        console.note(f"  {prefix}: at work for {past}{last}")


def _failure(program: str, status: int, tail: Sequence[str]) -> PatchsetError:
    name = Path(program).name
    if full := [line for line in tail if files.tells_of_no_space(line)]:
        return NoSpaceError(
            f"the disk is full: {name} said {end_of(full[-1])!r}",
            "free some space, then run the same command again",
        )
    if alone := [line for line in tail if _NO_NETWORK.search(line)]:
        return UnavailableError(
            f"{name} has no network; it said {end_of(alone[-1])!r}",
            "check the network and the proxy's variables, then run it again",
        )
    status = status if status >= 0 else 128 - status
    return ProgramError(f"{name} ended with status {status}", "\n".join(tail))


def end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a program with its whole group, and kill what does not end."""
    for number, seconds in (
        (signal.SIGINT, GRACE),
        (signal.SIGTERM, LAST_GRACE),
        (signal.SIGKILL, LAST_GRACE),
    ):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
