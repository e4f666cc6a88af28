# SPDX-License-Identifier: Apache-2.0
"""``python -m gpu``: make the receipt's file, run it here, check receipts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from cpu import checkpoints, environment, table
from gpu import build, check, host, report
from patchset import console, files, release, run_command
from patchset.errors import MissingToolError, PatchsetError
from patchset.series.apply import PatchedRelease

#: The CUDA image or wheel with all that it requires, in GB.
_DISK = 20


def run_here(
    pinned: release.Release,
    file: Path,
    target: str,
    python: str | None,
    words: list[str],
) -> None:
    """Run the file on this machine: in the official image, or with a Python that has vLLM.

    Raises:
        PatchsetError: there is no GPU, no engine, or the run failed.
    """
    if target == "cpu":
        python = str(environment.environment(pinned))
        words = ["--target", "cpu", *words]
    command = [python or "", str(file), *words]
    if not python:
        engine = next(filter(shutil.which, ("docker", "podman")), None)
        if engine is None:
            raise MissingToolError(
                "neither docker nor podman is installed",
                "install one, or name a Python that has vLLM with --python",
            )
        look = [engine, "image", "inspect", pinned.image]
        if subprocess.run(look, capture_output=True, check=False).returncode:
            host.need_space(file.parent, _DISK, f"the image {pinned.image}")
        gpus = (
            ["--gpus", "all"]
            if engine == "docker"
            else ["--device", "nvidia.com/gpu=all"]
        )
        command = [engine, "run", "--rm", "--ipc", "host", *gpus]
        command += ["--volume", f"{file.parent}:/out", "--entrypoint", "python3"]
        command += [pinned.image, f"/out/{file.name}", *words]
    # The file is for a bare Python: nothing of this one's.
    bare = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(command, env=bare, check=False)
    if done.returncode:
        raise PatchsetError(
            f"the receipt ended with status {done.returncode}", "its output is above"
        )


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
    }
)
@click.argument("name", metavar="[RELEASE]", required=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("--target", type=click.Choice(["cuda", "cpu"]), default="cuda")
@click.option(
    "--run", "here", is_flag=True, help="Run it here as well; implied by --target cpu."
)
@click.option("--python", help="Run it with this Python, which has vLLM.")
@click.option(
    "--check",
    "receipt",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Make nothing: check a receipt that was sent.",
)
@click.option("--results", is_flag=True, help="Keep the receipt in results/receipts.")
@click.option(
    "--train", is_flag=True, help="Make nothing: train the small model again."
)
def command(
    name: str | None,
    words: tuple[str, ...],
    target: str,
    here: bool,
    python: str | None,
    receipt: Path | None,
    results: bool,
    train: bool,
) -> None:
    """Write build/receipt/receipt-RELEASE.pyz, one file that serves stock and patched vLLM and writes a receipt.

    Options that are not listed here are the file's own; see --run --help.
    """
    if train:
        made = checkpoints.archive(again=True)
        console.result(f"{files.sha256_file(made)}  {made}")
        return
    if receipt is None:
        pinned = release.load(name)
        here = here or python is not None or target == "cpu"
        if here and target == "cuda" and (why := host.no_gpu()):
            raise PatchsetError(why, "run it on a host with an NVIDIA GPU")
        file = build.write(PatchedRelease(pinned))
        size = file.stat().st_size / 2**20
        console.result(f"{file} ({size:.1f} MiB)")
        if not here:
            return
        run_here(pinned, file, target, python, list(words))
        receipt = file.with_suffix("") / "receipt.json"
    read = check.check(receipt)
    console.result(report.table(read))
    if results:
        check.keep(read)
        if (read["target"], read["every"]) == ("cpu", 1):
            table.keep(read)


if __name__ == "__main__":
    run_command.run(command, sys.argv[1:])
