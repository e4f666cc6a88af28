# SPDX-License-Identifier: Apache-2.0
"""The server's own environment: the official CPU wheel and what it requires.

Made by pip, so that an index or folder which pip is configured with is asked for the
CPU build of torch. Where there is none, the plain build serves as well; it is larger.
"""

from __future__ import annotations

import hashlib
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

from cpu import build_dir
from patchset import console, files, process
from patchset.inputs import fetch
from patchset.release import Release, this_machine

#: Not used by a text model; of torch the plain build will do where there is no other.
_LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}


def environment(release: Release) -> Path:
    """The interpreter of an environment with the official CPU wheel; made once.

    Raises:
        PatchsetError: pip failed.
    """
    wheel = fetch.artifact(release.wheel("cpu", this_machine()))
    # vLLM's Qwen3.5 model file imports torchvision.
    wanted = [f"torch=={release.torch}", "torchvision", *requirements(wheel)]
    named = "\n".join([sys.version, *wanted, str(wheel)])
    key = hashlib.sha256(named.encode()).hexdigest()[:16]
    folder = build_dir() / f"env-{key}"
    with files.lock(folder):
        if not (folder / "READY").is_file():
            with console.step(f"make the server's environment, {len(wanted)} packages"):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *wanted)
                _pip(folder, "--no-deps", str(wheel))
                (folder / "READY").touch()
    return folder / "bin" / "python"


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires here, without what the lane chooses itself."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    wanted = set()
    for line in metadata.get_all("Requires-Dist", []):
        one = Requirement(line)
        if one.name not in _LEFT_OUT and (
            one.marker is None or one.marker.evaluate({"extra": ""})
        ):
            one.marker = None
            wanted.add(str(one))
    return sorted(wanted)


def _pip(folder: Path, *arguments: str) -> None:
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input"]
    process.run([*pip, *arguments], prefix="pip")
