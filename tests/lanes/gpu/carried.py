# SPDX-License-Identifier: Apache-2.0
"""``python -m gpu.carried``: the lane over what a bundle's script has installed."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from gpu import cells, device, lane, real
from gpu.prepared import Prepared
from patchset import console, run_command

#: Exit status when there was no time for all cells.
TIME_UP = 4
#: flashinfer is not in the bundle; on sm_90 the engine would take its kernels, and compile them, if not told otherwise.
WITHOUT_FLASHINFER = ("--gdn-prefill-backend", "triton")
#: Of real weights, in tokens.
MAX_MODEL_LEN = 32_768
VARIABLES = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_HOST_IP": "127.0.0.1"}


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--cells", "names", required=True)
@click.option("--mtp", required=True)
@click.option("--variants", required=True)
@click.option("--servers", type=int, required=True)
@click.option("--seconds", type=float, required=True)
@click.option("--model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True)
def command(
    file: Path,
    names: str,
    mtp: str,
    variants: str,
    servers: int,
    seconds: float,
    model: Path | None,
    out: Path,
) -> None:
    """Run the lane over what FILE says is installed."""
    from cpu.__main__ import mtp_range

    device.visible()
    prepared = Prepared.load(file)
    first = next(iter(prepared.variants.values()))
    prepared = dataclasses.replace(
        prepared,
        arguments=[*prepared.arguments, *WITHOUT_FLASHINFER],
        variables=prepared.variables | VARIABLES,
        gpu=device.described(Path(first.folder) / "bin" / "python"),
    )
    if model:
        prepared = dataclasses.replace(
            prepared,
            checkpoint=None,
            model=str(model),
            revision=real.revision(model),
            max_model_len=MAX_MODEL_LEN,
        )
        servers = 1  # real weights want the GPU
    whole = out / f"prepared-{prepared.release}.json"
    prepared.save(whole)
    jobs = cells.plan(
        cells.chosen(names), variants.split(","), mtp_range(mtp), control_first=model is not None
    )
    outcome = lane.run(prepared, jobs, out, lane.worker(whole, out), servers=servers, seconds=seconds)
    for bad in outcome.bad():
        console.note(f"! {bad}")
    if outcome.left:
        console.note(f"{len(outcome.left)} cells are left for another run")
        sys.exit(TIME_UP)
    sys.exit(1 if outcome.bad() else 0)


if __name__ == "__main__":
    run_command.run(command)
