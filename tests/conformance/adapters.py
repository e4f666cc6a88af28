"""Adapters: what runs jobs. A source tree in processes of its own, or a server that is already running."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent

Job = dict[str, Any]
Result = dict[str, Any]


class AdapterError(RuntimeError):
    """The thing to be judged could not be started, or died."""


class TreeAdapter:
    """Judges a vLLM source tree (stock or patched) in ``workers`` subprocesses that share the jobs."""

    def __init__(self, tree: Path, *, python: str = sys.executable, workers: int = 2, log: Path | None = None) -> None:
        if not (tree / "vllm" / "__init__.py").is_file():
            raise AdapterError(f"{tree} is no vLLM source tree")
        self.tree, self.python, self.workers, self.log = tree.resolve(), python, workers, log
        self.release = "?"

    def label(self) -> str:
        """What the matrix calls it."""
        return f"v{self.release}"

    def serve(self, port: int, reasoning: str, names: list[str]) -> int:
        """Serve the tree with scripted answers on a loopback port until interrupted; returns the exit code."""
        command = [self.python, "-m", "conformance.host.serve", "--port", str(port), "--reasoning", reasoning]
        command += [word for name in names for word in ("--case", name)]
        return subprocess.run(command, cwd=TESTS, env=self._environment(), check=False).returncode

    def _environment(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        env["PYTHONPATH"] = f"{self.tree}{os.pathsep}{TESTS}"
        env.setdefault("OMP_NUM_THREADS", "1")
        if "PYTHONPYCACHEPREFIX" not in env:
            env["PYTHONDONTWRITEBYTECODE"] = "1"  # a pristine tree stays as it was unpacked
        return env

    def _start(self) -> subprocess.Popen[str]:
        env = self._environment()
        sink = open(self.log, "a") if self.log else subprocess.DEVNULL  # noqa: SIM115 - the child owns it
        return subprocess.Popen(
            [self.python, "-m", "conformance.host"], cwd=TESTS, env=env, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink,
        )  # fmt: skip

    def run(self, jobs: list[Job]) -> Iterator[Result]:
        """Results in the order in which they come. Raises AdapterError when a process dies."""
        todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
        # The longest first, so that no worker is left with a long one at the end.
        for job in sorted(jobs, key=lambda j: -len(j.get("case", {}).get("output", ""))):
            todo.put(job)
        count = min(self.workers, max(1, len(jobs)))
        for _ in range(count):
            todo.put(None)
        processes = [self._start() for _ in range(count)]
        for process in processes:
            threading.Thread(target=self._work, args=(process, todo, done), daemon=True).start()
        try:
            for _ in jobs:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def _work(self, process: subprocess.Popen[str], todo: Any, done: Any) -> None:
        assert process.stdin and process.stdout
        try:
            ready = json.loads(process.stdout.readline() or "{}")
            if Path(ready.get("tree", "/")).resolve() != self.tree:
                where = f"; see {self.log}" if self.log else "; give --log FILE to see why"
                raise AdapterError(f"{self.tree} could not be started{where}: {ready or 'no answer'}")
            self.release = ready["ready"]
            while (job := todo.get()) is not None:
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    raise AdapterError(f"{self.tree}: the host died during {job.get('name', 'a search')}")
                done.put(json.loads(line))
        except BaseException as error:  # noqa: BLE001 - handed to the reader of the results
            done.put(error)


class UrlAdapter:
    """Judges a running OpenAI-compatible server.

    The server must say the case's output when it is asked ``[case:NAME]``: a model that has learnt the cases by heart, or
    ``conformance TREE --serve PORT``, which also obeys the schedule named in the header. A server that says something else is
    recognised where it returns token ids; otherwise its answer just counts as wrong.
    """

    def __init__(self, url: str, model: str, reasoning: str, *, headers: dict[str, str] | None = None) -> None:
        self.url, self.model, self.reasoning = url.rstrip("/").removesuffix("/v1"), model, reasoning
        self.headers = headers or {}

    def label(self) -> str:
        """What the matrix calls it."""
        return self.url

    def run(self, jobs: list[Job]) -> Iterator[Result]:
        """Results in order."""
        import asyncio

        from conformance.remote import RemoteJudge

        judge = RemoteJudge(self.url, self.model, self.headers)
        for job in jobs:
            yield asyncio.run(judge.job(job, self.reasoning))


def jobs_for(
    cases: list[Any], *, surfaces: list[str], reasoning: str | None, pattern: str | None, names: list[str] | None, full: bool,
    seeds: int, start: str | None = None, starts: dict[str, Any],
) -> list[Job]:  # fmt: skip
    """One job a case and surface, as the host takes it."""
    from conformance.case import dump

    out = []
    for case in cases:
        chosen = [s for s in case.starts if (not reasoning or starts[s].reasoning == reasoning) and (not start or s == start)]
        if chosen:
            out += [
                {"name": case.name, "case": json.loads(dump(case)), "surfaces": [surface], "starts": chosen,
                 "schedules": names, "pattern": pattern, "full": full, "seeds": seeds}
                for surface in surfaces
            ]  # fmt: skip
    return out


Progress = Callable[[int, int], None]
