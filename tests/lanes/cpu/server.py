# SPDX-License-Identifier: Apache-2.0
"""One ``vllm serve``: started on a free port, watched until it is healthy, and stopped whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from patchset.errors import PatchsetError

MODEL_NAME = "learnt-by-heart"
#: The module that is the command ``vllm``.
VLLM = "vllm.entrypoints.cli.main"
#: Prompt plus answer of the longest transcript, with room.
MAX_MODEL_LEN = 3072
START_SECONDS = 600.0
STOP_SECONDS = 30
SITE = Path(__file__).parent / "site"
_LAST_LINES = 40


@dataclass(frozen=True)
class Serving:
    """How a server is started: the words for ``vllm``, arguments and environment variables.

    ``at_once`` requests are kept in flight; the engine has places for some more.
    """

    command: tuple[str, ...]
    at_once: int
    arguments: tuple[str, ...]
    variables: dict[str, str]
    dtype: str = "bfloat16"
    max_model_len: int = MAX_MODEL_LEN


def on_cpu(*command: str, path: str = "") -> Serving:
    """The way to serve on a CPU.

    Graphs, and hybrid caches with prefix caching, need Triton, which the CPU has not.
    ``path`` goes on ``PYTHONPATH``.
    """
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(SITE), path))),
        "E2E_CONV_MEND": "1",
        "E2E_TORCHVISION_SHIM": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }
    arguments = ("--enforce-eager", "--no-enable-prefix-caching")
    return Serving(command, 32, arguments, variables)


@dataclass
class Server:
    """A running server; ``mtp`` is k, the number of drafted tokens."""

    url: str
    mtp: int
    log: Path
    tap: Path
    process: subprocess.Popen[bytes]
    at_once: int
    started_seconds: float = 0.0
    _tap_read: int = field(default=0, repr=False)

    def healthy(self) -> bool:
        """Whether ``/health`` answers 200."""
        with contextlib.suppress(httpx.HTTPError):
            return (
                self.process.poll() is None
                and httpx.get(f"{self.url}/health", timeout=10).status_code == 200
            )
        return False

    def metrics(self) -> str:
        """The text of ``/metrics``."""
        return httpx.get(f"{self.url}/metrics", timeout=30).raise_for_status().text

    def tapped(self) -> list[dict[str, object]]:
        """What the tap wrote since the last call."""
        if not self.tap.is_file():
            return []
        with self.tap.open("rb") as file:
            file.seek(self._tap_read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._tap_read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


@contextlib.contextmanager
def running(
    serving: Serving,
    checkpoint: Path | str,
    mtp: int,
    folder: Path,
    *,
    seconds: float = START_SECONDS,
    on_wait: Callable[[str], None] = lambda line: None,
) -> Iterator[Server]:
    """Serve ``checkpoint`` with ``mtp`` drafted tokens (0: no speculative decoding).

    The server's log and the tap's lines go to ``folder``; ``on_wait`` hears the log's last line while the server starts.

    Raises:
        PatchsetError: the server ended, or was not healthy after ``seconds``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, tap = folder / f"server-k{mtp}.log", folder / f"tap-k{mtp}.jsonl"
    tap.unlink(missing_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    variables = os.environ | {
        "PYTHONPATH": str(SITE),
        "E2E_TAP": str(tap),
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONFAULTHANDLER": "1",
        # Python takes modules from the current folder first; vLLM's sources may lie there.
        "PYTHONSAFEPATH": "1",
        "HF_HUB_OFFLINE": "1",
        # The default, 5 s, is the clients' own: a request may meet a connection that the server has just closed.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "600",
        **serving.variables,
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [*serving.command, "serve", str(checkpoint)]
    command += _arguments(serving, mtp, port)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=variables, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    server = Server(url, mtp, log, tap, process, serving.at_once)
    try:
        _wait(server, seconds, on_wait)
        yield server
    except (httpx.HTTPError, psutil.Error) as error:
        # An engine that died takes the server with it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            raise PatchsetError(
                f"the server for k = {mtp} ended during the checks", last_lines(log)
            ) from error
        raise
    finally:
        _stop(process)


def _arguments(serving: Serving, mtp: int, port: int) -> list[str]:
    given = {
        "served-model-name": MODEL_NAME,
        "host": "127.0.0.1",
        "port": port,
        "dtype": serving.dtype,
        "max-model-len": serving.max_model_len,
        "max-num-seqs": serving.at_once + 8,
        "tool-call-parser": "qwen3_coder",
        "reasoning-parser": "qwen3",
    }
    if mtp:
        drafting = {"method": "mtp", "num_speculative_tokens": mtp}
        given["speculative-config"] = json.dumps(drafting)
    words = [
        word for name, value in given.items() for word in (f"--{name}", f"{value}")
    ]
    return ["--enable-auto-tool-choice", *words, *serving.arguments]


def _wait(server: Server, seconds: float, on_wait: Callable[[str], None]) -> None:
    start = last = time.monotonic()
    who = f"the server for k = {server.mtp}"
    while not server.healthy():
        now = time.monotonic()
        if server.process.poll() is not None:
            raise PatchsetError(
                f"{who} ended with status {server.process.returncode} before it was "
                "healthy",
                last_lines(server.log),
            )
        if now - start > seconds:
            raise PatchsetError(
                f"{who} was not healthy after {seconds:.0f} s", last_lines(server.log)
            )
        if now - last > 15:
            on_wait(last_lines(server.log, 1)[-100:] or "no line in its log yet")
            last = now
        time.sleep(0.5)
    server.started_seconds = time.monotonic() - start


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server's process group, and whatever it started, by force after ``STOP_SECONDS``."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
                break
        for left in psutil.wait_procs(family, timeout=5)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
    process.wait(STOP_SECONDS)


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    """The end of a log."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-count:])
