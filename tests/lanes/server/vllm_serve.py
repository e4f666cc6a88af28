# SPDX-License-Identifier: Apache-2.0
"""One ``vllm serve``: started on a free port, watched, stopped whatever happens."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from patchset import console
from patchset.errors import PatchsetError
from server.questions import MODEL_NAME

#: The module that is the command ``vllm``.
VLLM = "vllm.entrypoints.cli.main"
#: Requests that are kept in flight; the engine has places for some more.
AT_ONCE = 64
_ARGUMENTS = (
    *("--served-model-name", MODEL_NAME),
    *("--max-num-seqs", str(AT_ONCE + 8)),
    *("--tool-call-parser", "qwen3_coder", "--enable-auto-tool-choice"),
    *("--reasoning-parser", "qwen3"),
)
#: Tokens of the small model's longest prompt and answer, with room.
SMALL = ("--max-model-len", "2048")
START_SECONDS = 600
#: Less than a program is given to end (patchset.process).
STOP_SECONDS = 20
SITE = Path(__file__).parent / "site"
_LAST_LINES = 20
#: Seconds between two notes that a server starts.
_STARTS = 15
#: The last line of a traceback, behind what vLLM's logger puts before it.
_RAISED = re.compile(
    r"(?:^|[\]\s])((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit)(?::? .*)?)$"
)


@dataclass(frozen=True)
class Serving:
    """How to start a server: the words for ``vllm``, arguments and variables."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: dict[str, str]


def on_cpu(*command: str, path: str = "") -> Serving:
    """Return the way to serve the small model on a CPU.

    Graphs, and hybrid caches with prefix caching, need Triton, which the CPU has not.
    ``path`` goes on ``PYTHONPATH``.
    """
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(SITE), path))),
        "SERVER_LANE_CONV_MEND": "1",
        "SERVER_LANE_TORCHVISION_SHIM": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }
    arguments = ("--enforce-eager", "--no-enable-prefix-caching", *SMALL)
    return Serving(command, arguments, variables)


@dataclass
class Server:
    """A running server; ``mtp`` is k, the number of drafted tokens."""

    url: str
    mtp: int
    log: Path
    tap: Path
    process: subprocess.Popen[bytes]

    def healthy(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return (
                self.process.poll() is None
                and httpx.get(f"{self.url}/health", timeout=10).status_code == 200
            )
        return False

    def accepted(self) -> list[float]:
        """Return the share of drafts whose token at each position was accepted."""
        by_position = [0.0] * self.mtp
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        for labels, value in self._samples(name):
            by_position[int(labels["position"])] += value
        drafts = max(self.total("vllm:spec_decode_num_drafts_total"), 1)
        return [round(count / drafts, 4) for count in by_position]

    def total(self, name: str) -> float:
        return sum(value for _, value in self._samples(name))

    def cache(self) -> dict[str, str]:
        """Return what the engine says of its cache: block sizes, modes."""
        return next(
            (labels for labels, _ in self._samples("vllm:cache_config_info")), {}
        )

    def _samples(self, wanted: str) -> Iterator[tuple[dict[str, str], float]]:
        got = httpx.get(f"{self.url}/metrics", timeout=30).raise_for_status()
        for family in text_string_to_metric_families(got.text):
            for name, labels, value, *_ in family.samples:
                if name == wanted:
                    yield labels, value

    def runner(self) -> str:
        """Return the model runner, by its log: each says so, or is the older."""
        return "V2" if "Using V2 Model Runner" in "\n".join(self._lines()) else "V1"

    async def tapped(self, ids: set[str]) -> dict[str, tuple[int, ...]]:
        """Return the tokens of responses by id, as far as the tap sees them soon."""
        outputs: dict[str, tuple[int, ...]] = {}
        for _ in range(50):
            text = self.tap.read_text("utf-8") if self.tap.is_file() else ""
            for line in map(json.loads, text.splitlines()):
                # A completion's first choice has an id of its own.
                outputs[line["id"].removesuffix("_0")] = tuple(line["tokens"])
            if ids <= set(outputs):
                break
            await asyncio.sleep(0.1)
        return outputs

    def _lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def cause(self) -> str:
        """Return what was raised first; a traceback that ends the log often hides it.

        The last line of a log without a traceback.
        """
        lines = [line.strip() for line in self._lines()]
        raised = [match[1] for line in lines if (match := _RAISED.search(line))]
        return next(iter([*raised, *filter(None, lines[::-1])]), "it said nothing")

    def where_to_look(self) -> str:
        last = self._lines()[-_LAST_LINES:]
        return "\n".join([f"its log is {self.log}; it ends with", *last])


@dataclass
class Group:
    """Servers of several threads, which one of them can end."""

    up: set[subprocess.Popen[bytes]] = field(default_factory=set)
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def started(
        self, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a server, and end all its processes behind the block.

        Raises:
            PatchsetError: the group was stopped.
        """
        # It ends all processes of the server, too, when this one is killed.
        keeper = (
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).with_name("keeper.py")),
        )
        with self.lock, log.open("wb") as out:
            if self.stopped:
                raise PatchsetError("no server is started any more")
            process = subprocess.Popen(
                [*keeper, str(os.getpid()), str(STOP_SECONDS), *command],
                stdout=out,
                stderr=out,
                env=env,
                start_new_session=True,
            )
            self.up.add(process)
        try:
            yield process
        finally:
            _stop(process)
            self.up.discard(process)

    def stop(self) -> None:
        """End all servers, and start none: each thread finds that its own has gone."""
        with self.lock:
            self.stopped = True
            for process in [*self.up]:  # each thread takes its own out
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)


def tap(folder: Path, mtp: int) -> Path:
    """Return the file to which a server that logs to ``folder`` taps its tokens."""
    return folder / f"tap-k{mtp}.jsonl"


@contextlib.contextmanager
def running(
    serving: Serving,
    model: Path | str,
    mtp: int,
    folder: Path,
    group: Group | None = None,
) -> Iterator[Server]:
    """Serve ``model`` with ``mtp`` drafted tokens (0: no speculative decoding).

    The server's log and the tap's lines go to ``folder``. It ends with the block, with
    the ``group``, and with this process.

    Raises:
        PatchsetError: the server ended, or was not healthy after ``START_SECONDS``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, lines = folder / f"server-k{mtp}.log", tap(folder, mtp)
    lines.unlink(missing_ok=True)  # who serves makes it, and may be another user
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    variables = os.environ | {
        "PYTHONPATH": str(SITE),
        "SERVER_LANE_TAP": str(lines),
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONFAULTHANDLER": "1",
        # Else Python takes modules from the current folder; vLLM's may lie there.
        "PYTHONSAFEPATH": "1",
        "HF_HUB_OFFLINE": "1",
        # The default, 5 s, is the clients' own: a connection may just be closed.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "600",
        **serving.variables,
    }
    command = [*serving.command, "serve", str(model), *_ARGUMENTS, *serving.arguments]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    if mtp:
        drafting = {"method": "mtp", "num_speculative_tokens": mtp}
        command += ["--speculative-config", json.dumps(drafting)]
    with (group or Group()).started(command, variables, log) as process:
        server = Server(f"http://127.0.0.1:{port}", mtp, log, lines, process)
        try:
            _wait(server)
            yield server
        except httpx.HTTPError as error:
            why = f"the server for k = {mtp} does not answer: {error!r}"
            raise PatchsetError(why, server.where_to_look()) from error


def _wait(server: Server) -> None:
    for waited in range(START_SECONDS):
        if server.healthy():
            return
        if server.process.poll() is not None:
            break
        if waited and waited % _STARTS == 0:
            console.note(f"  the server starts, {waited} s so far")
        time.sleep(1)
    status = server.process.poll()
    how = "is not healthy" if status is None else f"ended with status {status}"
    why = f"the server for k = {server.mtp} {how} after {waited + 1} s"
    raise PatchsetError(f"{why}: {server.cause()[:300]}", server.where_to_look())


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server's process group; what is left behind the server, by force."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
