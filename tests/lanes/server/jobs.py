# SPDX-License-Identifier: Apache-2.0
"""One server of a receipt: started, asked, judged and timed."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from server import asking, pace, real, recall, vllm_serve
from server.questions import questions

#: What the file carries, unpacked.
CONTENT = Path(__file__).resolve().parents[1]
#: Ways to start a server on a GPU, in the order in which they are worth running.
CELLS = {
    "graphs": ("--no-enable-prefix-caching",),
    "prefix": ("--enable-prefix-caching",),
    "eager": ("--no-enable-prefix-caching", "--enforce-eager"),
}
#: Not a way to start a server: one is started with prefix caching, and one without.
RECALL = "recall"
_CACHE = ("block_size", "mamba_block_size", "mamba_cache_mode", "enable_prefix_caching")
#: For the small model. With the cache's size the engine does not measure the GPU.
_SMALL = (
    *vllm_serve.SMALL,
    "--kv-cache-memory-bytes",
    str(2 << 30),
    "--gpu-memory-utilization",
    "0.05",
    "--language-model-only",
)
_REAL = ("--max-model-len", "32768")
#: Streams that are timed at once, and rounds of them.
_TIMED = {"cuda": (vllm_serve.AT_ONCE, 4), "cpu": (4, 2)}


@dataclass(frozen=True)
class Job:
    """One server: stock or patched, the way it is started, the drafted tokens."""

    variant: str
    cell: str
    mtp: int

    def __str__(self) -> str:
        return f"{self.variant}-{self.cell}-k{self.mtp}"


@dataclass
class Servers:
    """What all servers of a run share; ``scratch`` has the trees."""

    target: str
    scratch: Path
    logs: Path
    model: str | None
    extra: tuple[str, ...]
    at_once: int = 1
    group: vllm_serve.Group = field(default_factory=vllm_serve.Group)
    #: One is timed at a time; others may start or answer meanwhile.
    timing: threading.Lock = field(default_factory=threading.Lock)

    def started(self, job: Job) -> vllm_serve.Serving:
        tree = str(self.scratch / job.variant)
        command = (sys.executable, "-m", vllm_serve.VLLM)
        if self.target == "cpu":
            return vllm_serve.on_cpu(*command, path=tree)
        arguments = (*CELLS[job.cell], *(_REAL if self.model else _SMALL), *self.extra)
        # What one has compiled serves the next; two at a time write no common cache.
        cache = job.variant if self.at_once == 1 else str(job)
        variables = {
            "PYTHONPATH": os.pathsep.join([str(vllm_serve.SITE), tree]),
            "VLLM_CACHE_ROOT": str(self.scratch / "cache" / cache),
            "HF_HUB_OFFLINE": "0" if self.model else "1",
        }
        return vllm_serve.Serving(command, arguments, variables)

    def result(self, job: Job) -> dict[str, Any]:
        """Return what came out of one server, or of the two of a recall."""
        begun = time.monotonic()
        if job.cell == RECALL:
            row = self._recalled(job)
        else:
            with self._running(job) as running:
                row = asyncio.run(self._judged(running))
        return {**vars(job), **row, "seconds": round(time.monotonic() - begun)}

    def _running(self, job: Job) -> AbstractContextManager[vllm_serve.Server]:
        model, logs = self.model or CONTENT / "checkpoint", self.logs / str(job)
        return vllm_serve.running(self.started(job), model, job.mtp, logs, self.group)

    def _recalled(self, job: Job) -> dict[str, Any]:
        """Ask for facts that are repeated: three times with prefix caching, once
        without.
        """
        asked, rounds = recall.prompts(), []

        async def ask(running: vllm_serve.Server, *names: str) -> None:
            async with asking.client(running.url) as client:
                for name in names:
                    rounds.append(await recall.ask(running, client, name, asked))

        with self._running(replace(job, cell="prefix")) as running:
            asyncio.run(ask(running, "cold", "warm", "warm again"))
            said, runner = running.cache(), running.runner()
        with self._running(replace(job, cell="graphs")) as running:
            asyncio.run(ask(running, "off"))
        return {
            "requests": len(rounds) * len(asked),
            "right": len(rounds) * len(asked) - sum(one["failed"] for one in rounds),
            "rounds": rounds,
            "runner": runner,
            "cache": {name: said[name] for name in _CACHE if name in said},
            "complaints": recall.complaints(rounds),
        }

    async def _judged(self, running: vllm_serve.Server) -> dict[str, Any]:
        asked = real.questions() if self.model else questions(CONTENT / "checkpoint")
        async with asking.client(running.url) as client:
            answers = await asking.ask(running, client, asked)
            accepted = running.accepted()
            # The first one that a client would watch; it is long.
            timed = next(q for q in asked if q.streamed and q.surface == "chat")
            with self.timing:
                paced = await pace.measure(client, timed.body(), *_TIMED[self.target])
        judge = real.verdicts if self.model else asking.verdicts
        return asking.summary(judge(answers)) | {
            "complaints": [] if self.model else asking.complaints(accepted),
            "accepted_by_position": accepted,
            "pace": paced,
        }

    def kernels(self, variant: str) -> str:
        """Return what the series' Triton kernels do: on the GPU, or interpreted on a
        CPU.
        """
        command = [sys.executable, "-m", "kernels.worker", variant, self.target]
        path = os.pathsep.join([str(self.scratch / variant), str(CONTENT)])
        variables = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        if self.target == "cpu":
            variables |= vllm_serve.on_cpu(path=path).variables | {
                "TRITON_INTERPRET": "1"
            }
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, check=False
        )
        try:
            report = json.loads(done.stdout)
        except ValueError:
            return f"failed: {done.stderr.strip()[-300:]}"
        return str(report.get("wrong") or f"right, {report['rows']} rows")
