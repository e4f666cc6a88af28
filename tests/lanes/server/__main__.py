# SPDX-License-Identifier: Apache-2.0
"""``python -m server``: make the receipt's file, run it here, check receipts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from patchset import console, files, paths, process, release, run_command
from patchset.errors import MissingToolError, PatchsetError
from patchset.series.apply import PatchedRelease
from server import build, check, environment, host, report
from server import model as small

#: The CUDA image with all that is in it, in bytes.
_DISK = 20e9


#: The file's own options that say which servers it runs.
_KS = {"--mtp", "--all"}


def engine(pinned: release.Release, file: Path) -> list[str]:
    """Return the words that run the file in the official image.

    Raises:
        PatchsetError: there is no driver, no engine, or no room for the image.
    """
    if host.driver() is None:
        raise PatchsetError(
            "no GPU can be used: nvidia-smi finds no driver of NVIDIA's",
            "run it on a host with an NVIDIA GPU",
        )
    if not shutil.which("docker"):
        raise MissingToolError(
            "docker is not installed",
            f"install it, or run {file.name} with a Python that has vLLM",
        )
    look = ("docker", "image", "inspect", pinned.image)
    if subprocess.run(look, capture_output=True, check=False).returncode:
        files.need_space({paths.project_root(): _DISK})
    return [
        *("docker", "run", "--rm", "--gpus", "all", "--ipc", "host"),
        *("--volume", f"{file.parent}:/out", "--entrypoint", "python3"),
        *(pinned.image, f"/out/{file.name}"),
    ]


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
    "--run",
    "here",
    is_flag=True,
    help="Run it here as well, with MTP = 1 to 5 unless you name others with --mtp; "
    "implied by --target cpu.",
)
@click.option(
    "--check",
    "receipt",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Make nothing: check a receipt that was sent.",
)
@click.option("--results", is_flag=True, help="Keep the receipt in results/receipts.")
@click.option(
    "--teach",
    is_flag=True,
    help="Make nothing: teach the small model what it is asked now.",
)
def command(
    name: str | None,
    words: tuple[str, ...],
    target: str,
    here: bool,
    receipt: Path | None,
    results: bool,
    teach: bool,
) -> None:
    """Write build/receipt/receipt-RELEASE.pyz, one file that writes a receipt.

    That file serves vLLM stock and patched, and says what came out.

    Options that are not listed here are the file's own; see its --help.
    """
    if teach:
        return small.teach()
    if receipt is None:
        pinned = release.load(name)
        file = build.file(pinned.name)
        begin = engine(pinned, file) if here and target == "cuda" else []
        build.write(PatchedRelease(pinned))
        console.result(f"{file} ({file.stat().st_size} bytes)")
        if target == "cpu":
            begin = [str(environment.environment(pinned)), str(file)]
        if not begin:
            return
        if target == "cuda" and not {word.partition("=")[0] for word in words} & _KS:
            words = (*words, *(f"--mtp={k}" for k in range(1, 6)))
        # With nothing of this Python's.
        bare = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        process.run([*begin, *words], prefix="receipt", env=bare)
        receipt = file.with_suffix("") / "receipt.json"
    read = check.check(receipt)
    console.result(report.table(read))
    if results:
        console.note(f"kept in {check.keep(read)}")


if __name__ == "__main__":
    run_command.run(command, sys.argv[1:])
