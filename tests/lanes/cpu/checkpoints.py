# SPDX-License-Identifier: Apache-2.0
"""The checkpoint, made once for what it depends on: transcripts, template, maker, torch and transformers."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from cpu import build_dir
from cpu.environment import Environment
from patchset import console, files
from patchset.errors import PatchsetError

_HERE = Path(__file__).parent
_SOURCES = (
    "transcripts/*.json",
    "chat_template.jinja",
    "tools.json",
    "transcripts.py",
    "checkpoint/*.py",
)


def key(environment: Environment) -> str:
    """What names a checkpoint: a hash over everything that decides its content."""
    digest = hashlib.sha256(
        repr(
            sorted(environment.versions.get(n, "") for n in ("torch", "transformers"))
        ).encode()
    )
    for pattern in _SOURCES:
        for file in sorted(_HERE.glob(pattern)):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def checkpoint(environment: Environment) -> Path:
    """The folder of the checkpoint; trained (some minutes) when there is none yet.

    Raises:
        PatchsetError: the training failed; its output was shown.
    """
    place = build_dir() / "checkpoints" / key(environment)
    with files.lock(place):
        if not place.is_dir():
            with (
                console.step("teach the model its transcripts (some minutes)"),
                files.atomic_folder(place) as folder,
            ):
                _make(environment, folder)
    return place


def _make(environment: Environment, folder: Path) -> None:
    # This package and the shim only: nothing of the tool is needed, or installed, over there.
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(_HERE / "site"), str(_HERE.parent)]),
        "E2E_TORCHVISION_SHIM": "1" if environment.shim_torchvision else "",
        "OMP_WAIT_POLICY": "passive",
        "HF_HUB_OFFLINE": "1",
    }
    command = [str(environment.python), "-m", "cpu.checkpoint", str(folder)]
    ended = subprocess.run(command, env=variables, check=False)
    if ended.returncode != 0:
        raise PatchsetError(
            f"the checkpoint maker ended with status {ended.returncode}",
            "its output is above",
        )
