# SPDX-License-Identifier: Apache-2.0
"""Runs jobs on a source tree, in processes of its own."""

import json
import os
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from conformance.case import STARTS, Case, document
from conformance.lines import Child, tree_environment
from patchset.errors import PatchsetError

#: A job (one case on one surface, all schedules) takes seconds; a host that is busy for
#: so long hangs in the code under test.
JOB_LIMIT_S = 900.0
#: For a host to import the release.
START_LIMIT_S = 900.0

Job = dict[str, Any]
Result = dict[str, Any]


class TreeAdapter:
    """Judges a vLLM source tree (stock or patched) in ``workers`` subprocesses that
    share the jobs.

    ``parsers`` has the options of the applications by reasoning parser of the cases.
    """

    def __init__(
        self,
        tree: Path,
        *,
        workers: int = 2,
        log: Path | None = None,
        plugin: Path | None = None,
        parsers: dict[str, list[str]] | None = None,
    ) -> None:
        if not (tree / "vllm" / "__init__.py").is_file():
            raise PatchsetError(
                f"{tree} is no vLLM source tree; nox -s apply -- RELEASE makes "
                "those of a release"
            )
        self.tree, self.workers, self.log = tree.resolve(), workers, log
        self.release = "?"
        self.plugin = plugin
        self.parsers = parsers or {"none": [], "qwen3": []}
        self._hosts = set[Child]()
        self._closed = threading.Event()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "conformance.host", json.dumps(self.parsers)]

    def run(self, jobs: list[Job]) -> Generator[Result, None, None]:
        """Yield results in the order in which they come.

        Raises PatchsetError when no process can be started.
        """
        # The longest first, so that no worker is left with a long one at the end.
        longest = sorted(jobs, key=lambda job: -len(job["case"]["output"]))
        self._closed.clear()
        idle: list[Child] = []
        pool = ThreadPoolExecutor(self.workers)
        try:
            judged = [pool.submit(self._judge, job, idle) for job in longest]
            for each in as_completed(judged):
                yield each.result()
        finally:
            self._closed.set()
            for host in list(self._hosts):
                host.end()
            pool.shutdown(cancel_futures=True)

    def _host(self) -> Child:
        """Return a process that runs this tree's code, or raise PatchsetError."""
        env = tree_environment(self.tree)
        if self.plugin:  # Python imports from a wheel as from a folder
            env["PYTHONPATH"] += f"{os.pathsep}{self.plugin.resolve()}"
        host = Child(self._command(), env, self.log)
        self._hosts.add(host)
        if self._closed.is_set():  # it may have been added too late
            host.end()
            raise PatchsetError("the run has ended")
        ready = host.ask({}, START_LIMIT_S) or {}
        if Path(ready.get("tree", "/")).resolve() != self.tree:
            where = f"; see {self.log}" if self.log else "; give --log FILE to see why"
            raise PatchsetError(
                f"{self.tree} could not be started{where}: {ready or 'no answer'}"
            )
        if self.plugin and not ready["plugin"]:
            raise PatchsetError(f"{self.plugin.name} does nothing on {self.tree}")
        self.release = ready["release"]
        return host

    def _judge(self, job: Job, idle: list[Child]) -> Result:
        """Ask a host that has nothing to do, or a new one; if it dies or hangs over the
        job, the job is wrong.
        """
        try:
            host = idle.pop()
        except IndexError:
            host = self._host()
        result: Result | None = host.ask(job, JOB_LIMIT_S)
        if result is None:
            self._hosts.discard(host)
            host.end()
            return _dead(job)
        idle.append(host)
        return result


def _dead(job: Job) -> Result:
    """Return the result of a job that killed its host: wrong from every start."""
    why = f"hang: the host died, or gave no answer in {JOB_LIMIT_S:.0f} s"
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
            "acts": {},
            "sdk": {},
            "streams": 0,
        }
        for surface in job["surfaces"]
        for start in job["starts"]
    ]
    return {"name": job["name"], "results": results}


def jobs_for(
    cases: list[Case],
    *,
    surfaces: list[str],
    reasoning: str | None = None,
    start: str | None = None,
    **how: Any,
) -> list[Job]:
    """Return one job a case and surface, as the host takes it."""
    out = []
    for case in cases:
        chosen = [
            s
            for s in case.starts
            if (not reasoning or STARTS[s].reasoning == reasoning)
            and (not start or s == start)
        ]
        if chosen:
            out += [
                {
                    "name": case.name,
                    "case": document(case),
                    "surfaces": [surface],
                    "starts": chosen,
                    **how,
                }
                for surface in surfaces
                if (not case.request or surface in case.request)
                # Only that API has no stop tokens.
                and not (case.stop_token and surface == "messages")
            ]
    return out
