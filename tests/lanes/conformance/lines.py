# SPDX-License-Identifier: Apache-2.0
"""Processes that answer each line of JSON with another."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LANES = Path(__file__).resolve().parents[1]
#: Bound of a module that is run to its end, in seconds.
LIMIT_S = 3600


class Child:
    """A process that answers; the leader of a group of its own, so that all of it ends.

    What it writes besides answers goes to ``log``.
    """

    def __init__(
        self, argv: Sequence[str], env: dict[str, str], log: Path | None = None
    ) -> None:
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
        with Path(log or os.devnull).open("a", encoding="utf-8") as sink:
            self.process = subprocess.Popen(
                argv,
                cwd=LANES,
                env=env,
                text=True,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
            )

    def line(self, limit: float) -> str:
        """Return its next line; empty when it has ended, or took more than ``limit``
        seconds.
        """
        assert self.process.stdout
        watch = threading.Timer(limit, self.process.kill)
        watch.start()
        try:
            return self.process.stdout.readline()
        finally:
            watch.cancel()

    def ask(self, document: Any, limit: float) -> Any:
        """Return the answer; None when it has ended, or took more than ``limit``
        seconds.
        """
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(document) + "\n")
            self.process.stdin.flush()
        return json.loads(self.line(limit) or "null")

    def end(self) -> None:
        """End it and whatever it has started."""
        assert self.process.stdin
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


class Standby:
    """A process that starts when it is first asked, and again when it has died."""

    def __init__(
        self, argv: Sequence[str], env: dict[str, str], log: Path | None = None
    ) -> None:
        self._how = argv, env, log
        self._child: Child | None = None

    def ask(self, document: Any, limit: float) -> Any:
        self._child = self._child or Child(*self._how)
        answer = self._child.ask(document, limit)
        if answer is None:
            self.end()
        return answer

    def end(self) -> None:
        if self._child:
            self._child.end()
        self._child = None


def answer(begin: Callable[[], Callable[[Any], Any]]) -> None:
    """Answer the documents on standard input; ``begin`` gives the function that does.

    What is printed meanwhile goes to standard error.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    give = begin()
    for line in sys.stdin:
        print(json.dumps(give(json.loads(line))), file=out, flush=True)
    os._exit(0)  # a release leaves threads that would keep the process


def tree_environment(tree: Path, **more: str) -> dict[str, str]:
    """Return the variables of a process that runs a tree's code; the tree stays as it
    is.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
    return {
        "OMP_NUM_THREADS": "1",
        **kept,
        "PYTHONPATH": f"{tree}{os.pathsep}{LANES}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def run_json(tree: Path, *arguments: str, **more: str) -> Any:
    """Run a module with a tree's code; return what it prints last, as JSON.

    Raises:
        PatchsetError: it failed, or did not end in an hour.
    """
    # The clients' own environments, which answer lines too, do not have it.
    from patchset.errors import PatchsetError

    command = [sys.executable, "-m", *arguments]
    environment = tree_environment(tree, **more)
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        why = f"{arguments[0]} did not end in {LIMIT_S} s on {tree}"
        raise PatchsetError(why, "its output is above") from error
    if done.returncode:
        why = f"{arguments[0]} ended with status {done.returncode} on {tree}"
        raise PatchsetError(why, "its output is above")
    return json.loads(done.stdout.splitlines()[-1])
