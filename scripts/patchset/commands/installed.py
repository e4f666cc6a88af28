# SPDX-License-Identifier: Apache-2.0
"""An installed vLLM: ``doctor``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from patchset import console, doctor, paths
from patchset.commands.options import FOLDER, python_option
from patchset.errors import UsageError


@click.command("doctor")
@python_option
@click.option(
    "--root",
    type=FOLDER,
    help="A site-packages folder instead, as of an unpacked image; nothing in it is run.",
)
@click.option("--gpu", is_flag=True, help="Fail if no GPU is visible.")
@click.option("--quiet", is_flag=True, help="Print only problems.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def doctor_command(
    context: click.Context,
    python: Path,
    root: Path | None,
    gpu: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say which patches are live in an environment, and what keeps them from it.

    Hashes the installed files, and compares them with patches/ of this checkout; looks
    for files that Python imports instead, stale bytecode, the Rust frontend, and a wheel,
    torch or driver that do not match. Images carry the same program as vllm-mtp-doctor.

    Exit status 0 when all is well, 1 when something is wrong, 2 when there is no vLLM, 3
    when it is a stock one.
    """
    if root and context.get_parameter_source("python") is ParameterSource.DEFAULT:
        python = Path(sys.executable)
    flags = (("--gpu", gpu), ("--quiet", quiet), ("--json", as_json))
    program = [str(python.absolute()), doctor.__file__]
    program += [word for word, on in flags if on]
    program += ["--root", str(root.absolute())] if root else []
    program += ["--patches", str(paths.patches_dir())]
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    if done.returncode == doctor.NO_VLLM:
        words = done.stderr.strip()[-500:]
        raise UsageError(words, "--python names the interpreter that serves")
    console.result(*done.stdout.splitlines())
    if done.stderr:
        console.note(done.stderr.strip()[-2000:])
    sys.exit(done.returncode)
