# SPDX-License-Identifier: Apache-2.0
"""The small model: the pinned archive where it is at hand, else trained here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tomllib
import zipfile
from pathlib import Path

from cpu import build_dir, environment, transcripts
from cpu.server import on_cpu
from patchset import console, files, paths, release
from patchset.errors import PatchsetError

#: The release whose CPU build teaches and serves it.
RELEASE = "v0.32.0"
_HERE = Path(__file__).parent
#: What decides the model's content, besides the transcripts' texts.
_SOURCES = (
    "transcripts/*.json",
    "chat_template.jinja",
    "tools.json",
    "checkpoint/*.py",
)
_PIN = _HERE / "checkpoint" / "pin.toml"


def archive(*, again: bool = False) -> Path:
    """The model's archive, ``learnt-by-heart-KEY.zip``; trained (a quarter of an hour) where there is none.

    It is looked for in the build folder and in the downloads, there with the pinned
    sha256 only. ``again`` trains it whatever there is.
    """
    key = _key()
    name = f"learnt-by-heart-{key}.zip"
    made = build_dir() / name
    with files.lock(made):
        if again or not made.is_file():
            pin = tomllib.loads(_PIN.read_text(encoding="utf-8"))
            found = paths.downloads_dir() / name
            if not again and found.is_file():
                if files.sha256_file(found) == pin["sha256"]:
                    return found
                console.note(f"{found} is not the pinned one; it is left alone")
            _make(made)
            if files.sha256_file(made) != pin["sha256"]:
                console.note(f"{made} is not the pinned one, which is no fault")
    return made


def checkpoint() -> Path:
    """The folder of the unpacked model."""
    packed = archive()
    place = build_dir() / "checkpoints" / files.sha256_file(packed)[:16]
    with files.lock(place):
        if not place.is_dir():
            with files.atomic_folder(place) as folder:
                zipfile.ZipFile(packed).extractall(folder)
    return place


def _key() -> str:
    said = "".join(transcript.text for transcript in transcripts.load().values())
    digest = hashlib.sha256(said.encode())
    for pattern in _SOURCES:
        for file in sorted(_HERE.glob(pattern)):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def variables() -> dict[str, str]:
    """The environment variables of the training, which needs the lanes and the shim alone."""
    found = os.environ | on_cpu(path=str(_HERE.parent)).variables
    return found | {"OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}


def _make(place: Path) -> None:
    """Train the model and pack its folder."""
    python = environment.environment(release.load(RELEASE))
    with (
        console.step("teach the model its transcripts (a quarter of an hour)"),
        files.scratch(build_dir()) as folder,
    ):
        command = [str(python), "-m", "cpu.checkpoint", str(folder)]
        ended = subprocess.run(command, env=variables(), check=False)
        if ended.returncode != 0:
            raise PatchsetError(
                f"the model's maker ended with status {ended.returncode}",
                "its output is above",
            )
        with (
            files.atomic_file(place) as unfinished,
            zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed,
        ):
            for file in sorted(folder.iterdir()):
                info = zipfile.ZipInfo(file.name, (1980, 1, 1, 0, 0, 0))
                packed.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
