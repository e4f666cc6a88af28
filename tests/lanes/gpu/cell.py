# SPDX-License-Identifier: Apache-2.0
"""``python -m gpu.cell``: one server, its checks, its result; a process of its own, so that several run at once."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import click

from cpu import checks, server
from cpu import lane as shared
from gpu import cells, device, pace, real, tool_eval
from gpu.prepared import Prepared
from patchset import files, run_command

#: KV cache of the small model in bytes; given, the engine does not measure the GPU that it shares with other cells.
_KV_CACHE = 4 << 30
_SMALL = (
    "--kv-cache-memory-bytes",
    str(_KV_CACHE),
    "--gpu-memory-utilization",
    "0.05",
    "--language-model-only",
)


def serving(prepared: Prepared, job: cells.Job, out: Path) -> server.Serving:
    """How the job's server is started."""
    small = prepared.checkpoint is not None
    variables = dict(prepared.variables)
    if small:  # cells side by side must not write the same compiled graphs
        variables["VLLM_CACHE_ROOT"] = str(out / "cache" / job.name(prepared.release))
    return server.Serving(
        name=f"{job.variant}-{job.cell.name}",
        at_once=cells.AT_ONCE,
        arguments=(
            *job.cell.arguments,
            *(_SMALL if small else ()),
            *prepared.arguments,
        ),
        variables=variables,
        dtype="bfloat16" if small else "auto",
        max_model_len=server.MAX_MODEL_LEN if small else prepared.max_model_len,
    )


def run(prepared: Prepared, job: cells.Job, out: Path) -> dict[str, Any]:
    """Serve, ask, judge; returns the result, which is written to ``out/cells``."""
    begun = time.monotonic()
    model = prepared.checkpoint or prepared.model or ""
    how = serving(prepared, job, out)
    environment = prepared.environment(job.variant)
    with server.running(environment, model, job.mtp, out / "logs", how) as running:
        if prepared.checkpoint is not None:
            # The transcripts' own tokens are the control: cells do not wait for each other.
            found = asyncio.run(shared.judge(running, Path(model), None, prepared.soak))
            said = shared.findings(found, job.mtp, Path(model), controlled=job.mtp == 0)
            body = checks.long_stream()
        else:
            control = (
                out
                / "control"
                / f"{prepared.release}-{job.variant}-{job.cell.name}.json"
            )
            said = asyncio.run(real.judge(running, control))
            said["tool_eval"] = asyncio.run(tool_eval.judge(running.url))
            body = checks.long_stream(real.prompts()[real.LONG]) | {
                "max_tokens": real.MAX_TOKENS
            }
        said["pace"] = asyncio.run(pace.measure(running.url, body, how.at_once))
        started = running.started_seconds
        attention = device.backends(running.log)
    said["seconds"] = said.get("seconds", {}) | {
        "server_start": round(started, 1),
        "all": round(time.monotonic() - begun, 1),
    }
    variant = prepared.variants[job.variant]
    result = {
        "lane": "gpu",
        "release": prepared.release,
        "variant": job.variant,
        "cell": job.cell.name,
        "wheel": variant.wheel,
        "model": prepared.model or "the cpu lane's checkpoint",
        "revision": prepared.revision,
        "gpu": prepared.gpu,
        "attention_backends": attention,
        "arguments": list(how.arguments),
        **said,
        "versions": environment.versions,
    }
    place = out / "cells" / f"{job.name(prepared.release)}.json"
    files.write_text(place, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    return result


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--variant", required=True)
@click.option("--cell", required=True)
@click.option("--mtp", type=int, required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def command(file: Path, variant: str, cell: str, mtp: int, out: Path) -> None:
    """Run one cell of the lane as FILE describes it."""
    prepared = Prepared.load(file)
    job = cells.Job(variant, cells.CELLS[cell], mtp)
    result = run(prepared, job, out)
    shared.say(result, out / "cells" / f"{job.name(prepared.release)}.json")


if __name__ == "__main__":
    run_command.run(command)
