# SPDX-License-Identifier: Apache-2.0
"""One ``vllm serve``: started on a free port, watched, stopped whatever happens."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
_LAST_LINES = 40


@dataclass(frozen=True)
class Serving:
    """How to start a server: the words for ``vllm``, arguments and variables."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: dict[str, str]


def on_cpu(*command: str, path: str = "") -> Serving:
    """The way to serve the small model on a CPU.

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
        """Whether ``/health`` answers 200."""
        with contextlib.suppress(httpx.HTTPError):
            return (
                self.process.poll() is None
                and httpx.get(f"{self.url}/health", timeout=10).status_code == 200
            )
        return False

    def accepted(self) -> list[float]:
        """The share of drafts whose token at each position was accepted."""
        got = httpx.get(f"{self.url}/metrics", timeout=30).raise_for_status()
        drafts, by_position = 0.0, [0.0] * self.mtp
        for family in text_string_to_metric_families(got.text):
            for name, labels, value, *_ in family.samples:
                if name == "vllm:spec_decode_num_drafts_total":
                    drafts += value
                elif name == "vllm:spec_decode_num_accepted_tokens_per_pos_total":
                    by_position[int(labels["position"])] += value
        return [round(count / max(drafts, 1), 4) for count in by_position]

    async def tapped(self, ids: set[str]) -> dict[str, tuple[int, ...]]:
        """The tokens of responses by id, as far as the tap sees them soon."""
        found: dict[str, tuple[int, ...]] = {}
        for _ in range(50):
            text = self.tap.read_text("utf-8") if self.tap.is_file() else ""
            for line in map(json.loads, text.splitlines()):
                # A completion's first choice has an id of its own.
                found[line["id"].removesuffix("_0")] = tuple(line["tokens"])
            if ids <= set(found):
                break
            await asyncio.sleep(0.1)
        return found

    def last_lines(self, count: int = _LAST_LINES) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-count:])


@contextlib.contextmanager
def running(
    serving: Serving,
    model: Path | str,
    mtp: int,
    folder: Path,
) -> Iterator[Server]:
    """Serve ``model`` with ``mtp`` drafted tokens (0: no speculative decoding).

    The server's log and the tap's lines go to ``folder``; while the server
    starts, the log's last line is shown.

    Raises:
        PatchsetError: the server ended, or was not healthy after ``START_SECONDS``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, tap = folder / f"server-k{mtp}.log", folder / f"tap-k{mtp}.jsonl"
    tap.unlink(missing_ok=True)  # who serves makes it, and may be another user
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    variables = os.environ | {
        "PYTHONPATH": str(SITE),
        "SERVER_LANE_TAP": str(tap),
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
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=variables, start_new_session=True
        )
    server = Server(f"http://127.0.0.1:{port}", mtp, log, tap, process)
    try:
        _wait(server)
        yield server
    except httpx.HTTPError as error:
        why = f"the server for k = {mtp} does not answer: {error!r}"
        raise PatchsetError(why, server.last_lines()) from error
    finally:
        _stop(process)


def _wait(server: Server) -> None:
    for waited in range(START_SECONDS):
        if server.healthy():
            return
        if server.process.poll() is not None:
            break
        if waited % 15 == 14:
            line = server.last_lines(1)[-100:] or "no line in its log yet"
            console.note(f"  starts: {line}")
        time.sleep(1)
    status = server.process.poll()
    how = "is not healthy" if status is None else f"ended with status {status}"
    why = f"the server for k = {server.mtp} {how} after {waited + 1} s"
    raise PatchsetError(why, server.last_lines())


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server's process group; what is left behind the server, by force."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
