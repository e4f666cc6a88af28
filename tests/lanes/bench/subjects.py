# SPDX-License-Identifier: Apache-2.0
"""Who is measured: the parsers that stand beside each other in one run, and the processes that hold them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.cells import LENGTHS, Cell
from bench.peer_parsers import PEERS

TESTS = Path(__file__).resolve().parent.parent

#: The name on vLLM's command line of the parser that the patches are about.
PARSER = "qwen3_coder"

#: The subject that is the patched tree at this many tokens, asked in the same rounds as it is at the greatest length.
SHORT, SHORT_TOKENS = "short", 4_000

#: Up to this length a peer whose cost may be quadratic is asked, in tokens.
_PEER_LENGTH = 64_000


@dataclass(frozen=True)
class Subject:
    """A parser in a tree. ``worker`` names the process, which several subjects may share."""

    name: str
    worker: str
    parser: str = PARSER
    #: Tokens of the output that it is asked about in the cells of the greatest length: what growth is measured against.
    tokens: int | None = None

    def takes(self, cell: Cell) -> bool:
        """Whether the cell means something for it."""
        if self.tokens is not None:
            return cell.path in ("parser", "serving") and cell.tokens == LENGTHS[-1]
        if self.name == "nothing":
            return cell.workload.startswith("prose") and cell.path in (
                "parser",
                "serving",
            )
        if self.name in (*PEERS, "qwen3_xml"):
            thinks = cell.workload.endswith("+reasoning")  # a parser for calls alone
            service = cell.path.startswith(("serving", "responses"))
            return not thinks and not service and cell.tokens <= _PEER_LENGTH
        return True


@dataclass(frozen=True)
class Place:
    """What a worker process has on its path."""

    tree: Path | None = None
    peer: str | None = None
    folder: Path | None = None

    def command(self) -> list[str]:
        """The process's command line."""
        extra = ["--peer", self.peer, "--folder", str(self.folder)] if self.peer else []
        return [sys.executable, "-m", "bench.worker", *extra]

    def environment(self) -> dict[str, str]:
        """The process's environment: the tree comes first, and no setting of vLLM is inherited."""
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("VLLM_")
        }
        inherited = [
            path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path
        ]
        env["PYTHONPATH"] = os.pathsep.join(
            [*([str(self.tree)] if self.tree else []), str(TESTS), *inherited]
        )
        env["OMP_NUM_THREADS"] = "1"
        env["PYTHONHASHSEED"] = "0"
        if "PYTHONPYCACHEPREFIX" not in env:
            env["PYTHONDONTWRITEBYTECODE"] = "1"  # a tree stays as it was made
        return env


class Worker:
    """A process that measures; replaced when it dies or hangs."""

    def __init__(
        self, place: Place, log: Path | None, under: Sequence[str] = ()
    ) -> None:
        self._place, self._log, self._under = place, log, under
        self._process: subprocess.Popen[str] | None = None
        self._sink: IO[bytes] | None = None

    def ask(self, cell: Cell, parser: str, budget: float) -> dict[str, Any]:
        """One sample; one with ``error`` when the process dies, or is far over ``budget`` seconds."""
        process = self._live()
        assert process.stdin and process.stdout
        # Besides the pass itself: importing vLLM, cutting the workload into tokens, and a slow step at the limit.
        watch = threading.Timer(6 * budget + 300, process.kill)
        watch.start()
        try:
            process.stdin.write(
                json.dumps(
                    {"cell": cell.document(), "parser": parser, "budget": budget}
                )
                + "\n"
            )
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.stop()
        said = self._last_line()
        return {
            "error": f"the measuring process died or hung{f'; it said: {said}' if said else ''}"
        }

    def _last_line(self) -> str:
        """What the process wrote last, of what it printed; empty when nothing was kept or written."""
        if self._sink is None:
            return ""
        self._sink.seek(0, os.SEEK_END)
        self._sink.seek(max(0, self._sink.tell() - 2000))
        lines = self._sink.read().decode("utf-8", "replace").split("\n")
        return next(
            (line.strip()[:300] for line in reversed(lines) if line.strip()), ""
        )

    @property
    def pid(self) -> int:
        """The process's number; it is started if it is not."""
        return self._live().pid

    def _live(self) -> subprocess.Popen[str]:
        if self._process is None:
            if self._sink is None:
                # close() closes it.
                self._sink = (
                    self._log.open("a+b") if self._log else tempfile.TemporaryFile()  # noqa: SIM115
                )
            self._process = subprocess.Popen(
                [*self._under, *self._place.command()],
                cwd=TESTS,
                env=self._place.environment(),
                text=True,
                encoding="utf-8",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._sink,
            )
            assert self._process.stdout
            self._process.stdout.readline()
        return self._process

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            self._process = None

    def close(self) -> None:
        """End the process and let go of what it printed."""
        self.stop()
        if self._sink is not None:
            self._sink.close()
            self._sink = None


@contextlib.contextmanager
def workers(places: dict[str, Place], log: Path | None) -> Iterator[dict[str, Worker]]:
    """One process a place, started when it is first asked, ended in any case; all of them on one processor."""
    made = {name: Worker(place, log) for name, place in places.items()}
    with one_processor():
        try:
            yield made
        finally:
            for worker in made.values():
                worker.close()


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    """Keep this process, and those that it starts meanwhile, on one of its processors.

    Only one of them measures at a time. On two, other work on either would slow one side of a ratio alone. Where the system
    has no such call nothing is done.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})  # the first one serves most interrupts
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
