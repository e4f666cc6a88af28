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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from cpu.environment import Environment
from patchset import console
from patchset.errors import PatchsetError

MODEL_NAME = "learnt-by-heart"
#: Prompt plus answer of the longest transcript, with room.
MAX_MODEL_LEN = 3072
START_SECONDS = 600
STOP_SECONDS = 30
_SITE = Path(__file__).parent / "site"
_LAST_LINES = 40


@dataclass(frozen=True)
class Serving:
    """How a server is started besides model and k: ``name`` in its logs' names, arguments and environment variables.

    ``at_once`` are the requests that the lane keeps in flight; the engine has places for some more.
    """

    name: str
    at_once: int
    arguments: tuple[str, ...]
    variables: dict[str, str]
    dtype: str = "bfloat16"
    max_model_len: int | None = MAX_MODEL_LEN


#: The cpu lane's: hybrid caches with prefix caching, and graphs, need Triton, which the CPU has not.
CPU = Serving(
    name="cpu",
    at_once=32,
    arguments=("--enforce-eager", "--no-enable-prefix-caching"),
    variables={
        "E2E_CONV_MEND": "1",
        # vLLM takes the CPU platform when "cpu" stands in the version of the distribution ``vllm``, or so:
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    },
)


@dataclass
class Server:
    """A running server; ``mtp`` is k, the number of drafted tokens."""

    url: str
    mtp: int
    log: Path
    tap: Path
    process: subprocess.Popen[bytes]
    at_once: int = 32
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

    def resident_bytes(self) -> dict[str, int]:
        """Resident memory of the server's processes in bytes, by role."""
        main = psutil.Process(self.process.pid)
        sizes = {"api": main.memory_info().rss, "others": 0}
        for child in main.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                sizes["others"] += child.memory_info().rss
        return sizes

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
    environment: Environment,
    checkpoint: Path | str,
    mtp: int,
    folder: Path,
    serving: Serving = CPU,
) -> Iterator[Server]:
    """Serve ``checkpoint`` with ``mtp`` drafted tokens (0: without speculative decoding); logs go to ``folder``.

    Raises:
        PatchsetError: the server ended, or was not healthy in ``START_SECONDS``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kind = "" if serving is CPU else f"{serving.name}-"
    log, tap = folder / f"server-{kind}k{mtp}.log", folder / f"tap-{kind}k{mtp}.jsonl"
    tap.unlink(missing_ok=True)
    port = _free_port()
    command = [
        str(environment.vllm),
        "serve",
        str(checkpoint),
        *_arguments(serving, mtp, port),
    ]
    variables = os.environ | {
        "PYTHONPATH": str(_SITE),
        "E2E_TAP": str(tap),
        "E2E_TORCHVISION_SHIM": "1" if environment.shim_torchvision else "",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONFAULTHANDLER": "1",
        "HF_HUB_OFFLINE": "1",
        # The default, 5 s, is the clients' own: a request may meet a connection that the server has just closed.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "600",
        **serving.variables,
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=variables, start_new_session=True
        )
    server = Server(f"http://127.0.0.1:{port}", mtp, log, tap, process, serving.at_once)
    try:
        _wait(server)
        yield server
    except PatchsetError:
        raise
    except Exception as error:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)  # an engine that died takes the server with it
        if process.poll() is None:
            raise
        raise PatchsetError(
            f"the server for k = {mtp} ended during the checks", _last_lines(log)
        ) from error
    finally:
        _stop(process)


def _arguments(serving: Serving, mtp: int, port: int) -> list[str]:
    arguments = [
        *(
            "--served-model-name",
            MODEL_NAME,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ),
        *("--dtype", serving.dtype, "--max-num-seqs", str(serving.at_once + 8)),
        *serving.arguments,
        *(
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "qwen3_coder",
            "--reasoning-parser",
            "qwen3",
        ),
    ]
    if serving.max_model_len is not None:
        arguments += ["--max-model-len", str(serving.max_model_len)]
    if mtp:
        arguments += [
            "--speculative-config",
            json.dumps({"method": "mtp", "num_speculative_tokens": mtp}),
        ]
    return arguments


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(server: Server) -> None:
    start = last = time.monotonic()
    while not server.healthy():
        now = time.monotonic()
        if server.process.poll() is not None:
            raise PatchsetError(
                f"the server for k = {server.mtp} ended with status {server.process.returncode} before it was healthy",
                _last_lines(server.log),
            )
        if now - start > START_SECONDS:
            raise PatchsetError(
                f"the server for k = {server.mtp} was not healthy after {START_SECONDS} s",
                _last_lines(server.log),
            )
        if now - last > 15:
            console.note(
                f"  waiting for the server, {now - start:.0f} s: {_last_line(server.log)}"
            )
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


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[
        -_LAST_LINES:
    ]
    return f"read {log}; its last lines:\n" + "\n".join(lines)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1][:120] if lines else "(nothing logged yet)"
