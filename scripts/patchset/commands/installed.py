# SPDX-License-Identifier: Apache-2.0
"""A vLLM that is installed somewhere: ``patch-installed``, ``doctor``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from click.core import ParameterSource

from patchset import console, paths
from patchset.commands.options import FOLDER, from_dir_option, python_option
from patchset.errors import EXIT_FAILED, EXIT_USAGE, UsageError
from patchset.install import doctor, in_place
from patchset.wheel import overlay


@click.command("patch-installed")
@click.argument("action", type=click.Choice(["status", "in", "out"]), default="status")
@python_option
@from_dir_option
@click.pass_context
def patch_installed_command(context: click.Context, action: str, python: Path) -> None:
    """Patch an installed vLLM in place (in), take the patches out again (out), or say what is live (status).

    For environments that cannot be rebuilt. Refuses when a file to be changed is not the pinned release's. Stop the
    server first: a running process keeps what it has loaded.

    'status' exits with 0 when the whole series is live, with 1 when it is not.
    """
    if action != "status" and context.get_parameter_source("python") is ParameterSource.DEFAULT:
        raise UsageError(f"'{action}' changes files: name the interpreter", f"for example --python {python}")
    found = in_place.find(python)
    if action == "in":
        in_place.put_in(found)
    elif action == "out":
        in_place.take_out(found)
    console.result(*(f"{kind:8} {path}" for path, kind in found.kinds().items()))
    if found.live:
        state = f"the series {found.patched.digest[:12]} is live"
    else:
        state = "stock" if found.stock else "neither stock nor patched as a whole"
    console.result(f"{found.patched.pin.name} in {found.site}: {state}")
    sys.exit(EXIT_FAILED if action == "status" and not found.live else 0)


@click.command("doctor")
@python_option
@click.option(
    "--root",
    type=FOLDER,
    help="A site-packages folder instead, such as one of an unpacked image: nothing in it is run.",
)
@click.option("--gpu", is_flag=True, help="Fail when no GPU is visible.")
@click.option("--quiet", is_flag=True, help="Print only problems.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@from_dir_option
@click.pass_context
def doctor_command(
    context: click.Context, python: Path, root: Path | None, gpu: bool, quiet: bool, as_json: bool
) -> None:
    """Say which patches are live in an environment, and what would keep them from taking effect.

    Hashes the installed files; looks for stale bytecode, another vllm that is imported instead, the Rust frontend
    (whose parsers are not patched), and a wheel, torch or driver that do not match. Images carry the same program as
    vllm-mtp-doctor.

    Exit status 0 when all is well, 1 when something is wrong, 2 when there is no vLLM of a pinned release.
    """
    if root and context.get_parameter_source("python") is ParameterSource.DEFAULT:
        python = Path(sys.executable)
    argv = [word for word, on in (("--gpu", gpu), ("--quiet", quiet), ("--json", as_json)) if on]
    argv += ["--root", str(root.absolute())] if root else []

    def look(*manifest: str) -> subprocess.CompletedProcess[str]:
        program = [str(python.absolute()), doctor.__file__, *argv, "--patches", str(paths.patches_dir())]
        return subprocess.run([*program, *manifest], check=False, capture_output=True, text=True)

    done = look()
    if done.returncode == doctor.NO_MANIFEST:
        # Not a wheel of ours, so perhaps one that was patched in place: what it should be is made from the pin.
        patched = (in_place.look(root) if root else in_place.find(python)).patched
        target, pinned = next(iter(patched.pin.wheels.items()))
        with tempfile.NamedTemporaryFile(suffix=".json") as manifest:
            manifest.write(overlay.provenance(patched, target, next(iter(pinned.values()))))
            manifest.flush()
            done = look("--manifest", manifest.name)
    if done.returncode == EXIT_USAGE:
        raise UsageError(done.stderr.strip()[-500:], "--python names the interpreter that serves")
    console.result(*done.stdout.splitlines())
    if done.stderr:
        console.note(done.stderr.strip()[-2000:])
    sys.exit(done.returncode)
