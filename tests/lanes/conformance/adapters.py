"""Adapters: what runs jobs. A source tree in processes of its own, or a server that
is already running.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent

JOB_LIMIT_S = 900.0
"""A job (one case on one surface, all schedules) takes seconds; a host that is busy
for so long hangs in the code under test.
"""

Job = dict[str, Any]
Result = dict[str, Any]


class AdapterError(RuntimeError):
    """The thing to be judged could not be started, or died."""


class _Hosts:
    """The processes of a run.

    Once it is closed none is left, and none is started by a thread that goes on.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[str]]) -> None:
        self._start, self._lock, self._closed = start, threading.Lock(), False
        self._live: set[subprocess.Popen[str]] = set()

    def start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise AdapterError("the run has ended")
            process = self._start()
            self._live.add(process)
            return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        self._live.discard(process)
        process.kill()
        process.wait()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for process in list(self._live):
            self.kill(process)


class TreeAdapter:
    """Judges a vLLM source tree (stock or patched) in ``workers`` subprocesses that
    share the jobs.
    """

    def __init__(
        self,
        tree: Path,
        *,
        python: str = sys.executable,
        workers: int = 2,
        log: Path | None = None,
        plugin: Path | None = None,
        pair: str | None = None,
    ) -> None:
        self.pair = pair
        if not (tree / "vllm" / "__init__.py").is_file():
            raise AdapterError(
                f"{tree} is no vLLM source tree; nox -s apply -- RELEASE makes those of a release"
            )
        self.tree, self.python, self.workers, self.log = (
            tree.resolve(),
            python,
            workers,
            log,
        )
        self.release = "?"
        self.plugin = plugin

    def label(self) -> str:
        """What the matrix calls it."""
        return f"v{self.release}"

    def serve(self, port: int, reasoning: str, names: list[str]) -> int:
        """Serve the tree with scripted answers on a loopback port until interrupted;
        returns the exit code.
        """
        command = [
            self.python,
            "-m",
            "conformance.host.serve",
            "--port",
            str(port),
            "--reasoning",
            reasoning,
        ]
        command += [word for name in names for word in ("--case", name)]
        return subprocess.run(
            command, cwd=TESTS, env=self.environment(), check=False
        ).returncode

    def environment(self) -> dict[str, str]:
        """Of a process that runs this tree's code."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        env["PYTHONPATH"] = f"{self.tree}{os.pathsep}{TESTS}"
        if self.plugin:  # Python imports from a wheel as from a folder
            env["PYTHONPATH"] += f"{os.pathsep}{self.plugin.resolve()}"
        env.setdefault("OMP_NUM_THREADS", "1")
        if "PYTHONPYCACHEPREFIX" not in env:
            env["PYTHONDONTWRITEBYTECODE"] = (
                "1"  # a pristine tree stays as it was unpacked
            )
        return env

    def _start(self) -> subprocess.Popen[str]:
        env = self.environment()
        sink = (
            self.log.open("a") if self.log else subprocess.DEVNULL
        )  # the child owns it
        return subprocess.Popen(
            [self.python, "-m", "conformance.host"]
            + (["--reasoning=qwen3", f"--pair={self.pair}"] if self.pair else []),
            cwd=TESTS,
            env=env,
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
        )

    def run(self, jobs: list[Job]) -> Generator[Result, None, None]:
        """Results in the order in which they come.

        Raises AdapterError when a process dies.
        """
        todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
        # The longest first, so that no worker is left with a long one at the end.
        for job in sorted(
            jobs, key=lambda j: -len(j.get("case", {}).get("output", ""))
        ):
            todo.put(job)
        count = min(self.workers, max(1, len(jobs)))
        for _ in range(count):
            todo.put(None)
        hosts = _Hosts(self._start)
        for _ in range(count):
            threading.Thread(
                target=self._work, args=(hosts, todo, done), daemon=True
            ).start()
        try:
            for _ in jobs:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            hosts.close()

    def _ready(self, hosts: _Hosts) -> subprocess.Popen[str]:
        """A host that runs this tree's code; raises AdapterError otherwise."""
        process = hosts.start()
        assert process.stdout
        ready = json.loads(process.stdout.readline() or "{}")
        if Path(ready.get("tree", "/")).resolve() != self.tree:
            where = f"; see {self.log}" if self.log else "; give --log FILE to see why"
            raise AdapterError(
                f"{self.tree} could not be started{where}: {ready or 'no answer'}"
            )
        if self.plugin and not ready["plugin"]:
            raise AdapterError(f"{self.plugin.name} does nothing on {self.tree}")
        self.release = ready["ready"]
        return process

    def _work(self, hosts: _Hosts, todo: Any, done: Any) -> None:
        """Feed a host until no job is left; a host that dies or hangs over a job is
        replaced, and the job is wrong.
        """
        try:
            process = self._ready(hosts)
            while (job := todo.get()) is not None:
                line = self._ask(process, job)
                if line:
                    done.put(json.loads(line))
                    continue
                hosts.kill(process)
                done.put(_dead(job))
                process = self._ready(hosts)
        except BaseException as error:  # handed to the reader of the results
            done.put(error)

    @staticmethod
    def _ask(process: subprocess.Popen[str], job: Job) -> str:
        """The host's answer, empty when it died or took longer than ``JOB_LIMIT_S``."""
        assert process.stdin and process.stdout
        watch = threading.Timer(JOB_LIMIT_S, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            watch.cancel()


def _dead(job: Job) -> Result:
    """The result of a job that killed its host: wrong from every start."""
    why = f"hang: the host died, or gave no answer in {JOB_LIMIT_S:.0f} s"
    from conformance.case import STARTS

    results = [
        {
            "case": job["name"],
            "class": job["case"]["class"],
            "start": start,
            "reasoning": STARTS[start].reasoning,
            "surface": surface,
            "ordinary": False,
            "right": [],
            "wrong": {"full": ["lost", why]},
            "differs": False,
            "sdk": {},
        }
        for surface in job["surfaces"]
        for start in job["starts"]
    ]
    return {
        "name": job["name"],
        "results": results,
        "streams": 0,
        "seconds": JOB_LIMIT_S,
    }


class UrlAdapter:
    """Judges a running OpenAI-compatible server.

    The server must say the case's output when it is asked ``[case:NAME]``: a model that
    has learnt the cases by heart, or ``conformance TREE --serve PORT``, which also
    obeys the schedule named in the header. Whatever else it says counts as wrong.
    """

    def __init__(
        self,
        url: str,
        model: str,
        reasoning: str,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.url, self.model, self.reasoning = (
            url.rstrip("/").removesuffix("/v1"),
            model,
            reasoning,
        )
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
    cases: list[Any],
    *,
    surfaces: list[str],
    reasoning: str | None,
    pattern: str | None,
    names: list[str] | None,
    full: bool,
    seeds: int,
    start: str | None = None,
    starts: dict[str, Any],
) -> list[Job]:
    """One job a case and surface, as the host takes it."""
    from conformance.case import document

    out = []
    for case in cases:
        chosen = [
            s
            for s in case.starts
            if (not reasoning or starts[s].reasoning == reasoning)
            and (not start or s == start)
        ]
        if chosen:
            out += [
                {
                    "name": case.name,
                    "case": document(case),
                    "surfaces": [surface],
                    "starts": chosen,
                    "schedules": names,
                    "pattern": pattern,
                    "full": full,
                    "seeds": seeds,
                }
                for surface in surfaces
                if not case.request or surface in case.request
            ]
    return out
