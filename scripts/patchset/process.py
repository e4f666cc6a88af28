# SPDX-License-Identifier: Apache-2.0
"""Run a long program so that its output is seen, and so that it ends with this one."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
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
#: Bytes of output that are read at a time, and of a line that has not ended.
_MOST = 1 << 16
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
    with contextlib.ExitStack() as at_end:
        with _signals_wait():
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                start_new_session=True,
                # Locks are held until the program has ended, even if this process is
                # killed.
                pass_fds=tuple(files.locks_held),
            )
            at_end.push(functools.partial(_interrupted, child, prefix))
        output, ended = _Output(child), threading.Event()
        at_end.callback(ended.set)
        told = (prefix, output, ended)
        threading.Thread(target=_tell, args=told, daemon=True).start()
        for line in output.lines():
            if line.strip():
                tail.append(line)
                # Of buildah's, the steps say more than what each prints.
                if line.startswith("STEP ") or not output.last.startswith("STEP "):
                    output.last = line
                if not wordy:
                    console.note(f"  {prefix}: {line}")
    if status := child.wait():
        for line in tail if wordy else ():
            console.note(f"  {prefix}: {line}")
        raise _failure(str(arguments[0]), status, tail)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold signals back until the block has ended: no program is started unseen."""
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                handler = signal.signal(number, lambda number, _: came.append(number))
                handlers[number] = handler
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _interrupted(
    child: subprocess.Popen[bytes], prefix: str, error: object, *_: object
) -> None:
    if error is not None:
        console.note(f"  {prefix}: told to stop, which can take a minute")
        end(child)


class _Output:
    """What a program prints, by lines.

    ``bar`` is the line that has not ended, ``last`` the last one that has.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.bar = self.last = ""
        self._pipe = cast(BufferedReader, child.stdout)

    def lines(self) -> Iterator[str]:
        """Yield its lines as they come; of one that is written over, the last state."""
        begun = b""
        while chunk := self._pipe.read1(_MOST):
            *whole, begun = (begun + chunk).split(b"\n")
            yield from map(self._shown, whole)
            # A bar may be written over for hours before its line ends.
            begun = begun[begun.rstrip(b"\r").rfind(b"\r") + 1 :][-_MOST:]
            self.bar = self._shown(begun)
        yield self._shown(begun)

    @staticmethod
    def _shown(raw: bytes) -> str:
        """Return what a line shows in the end."""
        return raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2]


def _tell(prefix: str, output: _Output, ended: threading.Event) -> None:
    """Say now and then that a program is at work, and how far, until it has ended."""
    start = time.monotonic()
    while not ended.wait(HEARTBEAT):
        past = console.duration(time.monotonic() - start)
        shown = (output.bar.strip() or output.last)[:160]
        console.note(f"  {prefix}: at work for {past}{shown and f': {shown}'}")


def _failure(program: str, status: int, tail: Sequence[str]) -> PatchsetError:
    """Return the error for a program that ended with a status."""
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
