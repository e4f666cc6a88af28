# SPDX-License-Identifier: Apache-2.0
"""``doctor``"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from patchset.base import console, paths
from patchset.base.errors import EXIT_USAGE, UsageError
from patchset.commands.options import from_dir_option
from patchset.install import doctor, in_place
from patchset.wheel import overlay


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=Path(sys.executable),
    show_default="the one that runs this",
    help="The interpreter that serves; it does the looking.",
)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A site-packages folder instead, such as one of an unpacked image: nothing in it is run.",
)
@click.option("--gpu", is_flag=True, help="Fail when no GPU is visible.")
@click.option("--quiet", is_flag=True, help="Print only problems.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@from_dir_option
def command(python: Path, root: Path | None, gpu: bool, quiet: bool, as_json: bool) -> None:
    """Say which patches are live in an environment, and what would keep them from taking effect.

    Hashes the installed files; looks for stale bytecode, another vllm that is imported instead, the Rust frontend
    (whose parsers are not patched), and a wheel, torch or driver that do not match. Images carry the same program as
    vllm-mtp-doctor.

    Exit status 0 when all is well, 1 when something is wrong, 2 when there is no vLLM of a pinned release.
    """
    program = [str(python.absolute()), doctor.__file__]
    argv = [word for word, on in (("--gpu", gpu), ("--quiet", quiet), ("--json", as_json)) if on]
    argv += ["--patches", str(paths.patches_dir())]
    if root is not None:
        argv += ["--root", str(root.absolute())]
    done = subprocess.run([*program, *argv], check=False, capture_output=True, text=True)
    if done.returncode == doctor.NO_MANIFEST:
        # Not a wheel of ours, so perhaps one that was patched in place: what it should be is made from the pin.
        found = in_place.look(root) if root else in_place.find(python)
        with tempfile.NamedTemporaryFile(suffix=".json") as manifest:
            manifest.write(_manifest(found))
            manifest.flush()
            argv += ["--manifest", manifest.name]
            done = subprocess.run([*program, *argv], check=False, capture_output=True, text=True)
    if done.returncode == EXIT_USAGE:
        raise UsageError(done.stderr.strip()[-500:], "--python names the interpreter that serves")
    for line in done.stdout.splitlines():
        console.result(line)
    if done.stderr:
        console.note(done.stderr.strip()[-2000:])
    sys.exit(done.returncode)


def _manifest(found: in_place.Installed) -> bytes:
    release = found.patched.pin
    target = next(iter(release.wheels))
    pinned = next(iter(release.wheels[target].values()))
    return overlay.provenance(found.patched, target, pinned)
