# SPDX-License-Identifier: Apache-2.0
"""One server of a receipt: started, asked, judged and timed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpu import checks, metrics, server, transcripts
from cpu.asking import Lane, Learnt, Question, summary
from gpu import pace, real, tool_eval

#: What the file carries, unpacked.
CONTENT = Path(__file__).resolve().parents[1]
#: Ways to start a server on a GPU, in the order in which they are worth running.
CELLS = {
    "graphs": ("--no-enable-prefix-caching",),
    "prefix": ("--enable-prefix-caching",),
    "eager": ("--no-enable-prefix-caching", "--enforce-eager"),
}
#: For the small model; the size of the cache is given, so that the engine does not measure the GPU.
_SMALL = (
    "--kv-cache-memory-bytes",
    str(2 << 30),
    "--gpu-memory-utilization",
    "0.05",
    "--language-model-only",
)
_MAX_MODEL_LEN = 32768
#: Streams that are timed at once, and rounds of them.
_TIMED = {"cuda": (64, 4), "cpu": (4, 2)}


@dataclass(frozen=True)
class Job:
    """One server: stock or patched, the way it is started, the drafted tokens."""

    variant: str
    cell: str
    mtp: int

    def __str__(self) -> str:
        """The name of its result and its logs."""
        return f"{self.variant}-{self.cell}-k{self.mtp}"


@dataclass
class Servers:
    """What all servers of a run share. ``scratch`` has the trees; without ``model`` the small one is served."""

    target: str
    scratch: Path
    logs: Path
    dtype: str = "bfloat16"
    model: str | None = None
    extra: tuple[str, ...] = ()
    soak: int = 0
    every: int = 1

    def started(self, job: Job) -> server.Serving:
        """How a job's server is started."""
        tree = str(self.scratch / job.variant)
        command = (sys.executable, "-m", server.VLLM)
        if self.target == "cpu":
            return server.on_cpu(*command, path=tree)
        small = () if self.model else _SMALL
        return server.Serving(
            command,
            _TIMED["cuda"][0],
            (*CELLS[job.cell], *small, *self.extra),
            {
                "PYTHONPATH": os.pathsep.join([str(server.SITE), tree]),
                "VLLM_CACHE_ROOT": str(self.scratch / "cache" / job.variant),
                "HF_HUB_OFFLINE": "0" if self.model else "1",
            },
            "auto" if self.model else self.dtype,
            _MAX_MODEL_LEN if self.model else server.MAX_MODEL_LEN,
        )

    def result(
        self, job: Job, seconds: float, note: Callable[[str], None]
    ) -> dict[str, Any]:
        """What came out of one server.

        Raises:
            TimeoutError: it took longer than ``seconds``.
        """
        begun = time.monotonic()
        with server.running(
            self.started(job),
            self.model or CONTENT / "checkpoint",
            job.mtp,
            self.logs / str(job),
            seconds=min(server.START_SECONDS, seconds),
            on_wait=lambda line: note(f"{job} starts: {line}"),
        ) as running:
            start = round(running.started_seconds)
            note(f"{job} is up after {start} s")
            left = seconds - (time.monotonic() - begun)
            judging = self._judged(job, running, note)
            found = asyncio.run(asyncio.wait_for(judging, max(1.0, left)))
        all_of_it = round(time.monotonic() - begun)
        return {**vars(job), **found, "seconds": {"start": start, "all": all_of_it}}

    async def _judged(
        self, job: Job, running: server.Server, note: Callable[[str], None]
    ) -> dict[str, Any]:
        known = real.prompts() if self.model else transcripts.load()
        learnt = None if self.model else Learnt.load(CONTENT / "checkpoint")
        asked = checks.questions(known, learnt) if learnt else real.questions()
        asked = sampled(asked, self.every)
        complaints: list[str] = []
        async with checks.client(running.url, 128) as client:
            lane = Lane(running, client, known, learnt)
            lane.advance = _counted(f"{job}:", len(asked) + self.soak, note)
            if learnt is None:
                verdicts = await real.judge(lane, asked)
            else:
                verdicts = await lane.judge(asked)
                verdicts += await lane.judge(checks.soak(known, self.soak))
                note(f"{job}: clients leave in mid-stream")
                lane.advance = lambda count: None
                complaints = await checks.disconnects(lane)
            drafts = metrics.drafts(running.metrics(), job.mtp)
            if learnt is not None and job.mtp:
                complaints += drafts.complaints()
            note(f"{job}: streams are timed")
            if learnt is None:
                body = checks.long_stream(known[real.LONG], real.MAX_TOKENS)
            else:
                body = checks.long_stream(known[checks.TIMED])
            timed = await pace.measure(client, body, *_TIMED[self.target])
        found = summary(verdicts) | {
            "complaints": complaints,
            "accepted": round(drafts.acceptance, 4),
            "accepted_by_position": drafts.acceptance_by_position,
            "burst_widths": drafts.widths() if job.mtp else {},
            "pace": timed,
        }
        if self.model and tool_eval.installed():
            found["tool_eval"] = await tool_eval.judge(running.url)
        return found

    def kernels(self, variant: str) -> str:
        """What the series' Triton kernels do here: on the GPU, or interpreted on a CPU."""
        words = [sys.executable, "-m", "kernels.worker", variant, self.target]
        path = os.pathsep.join([str(self.scratch / variant), str(CONTENT)])
        variables = os.environ | {"PYTHONPATH": path}
        if self.target == "cpu":
            variables |= server.on_cpu(path=path).variables | {"TRITON_INTERPRET": "1"}
        variables["PYTHONSAFEPATH"] = "1"
        done = subprocess.run(
            words, capture_output=True, text=True, env=variables, check=False
        )
        try:
            said = json.loads(done.stdout)
        except ValueError:
            return f"failed: {done.stderr.strip()[-300:]}"
        return str(said.get("wrong") or f"right, {said['rows']} rows")


def sampled(questions: Sequence[Question], every: int) -> list[Question]:
    """One question in so many, the same every time, of all surfaces and ways."""
    drawn = random.Random(every).sample(range(len(questions)), len(questions) // every)
    return [questions[n] for n in sorted(drawn)]


def _counted(
    what: str, total: int, note: Callable[[str], None]
) -> Callable[[int], None]:
    """A function that counts answers, and says so every ten seconds."""
    done, told = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        if time.monotonic() - told > 10:
            told = time.monotonic()
            note(f"{what} {done} of {total} answered")

    return advance
