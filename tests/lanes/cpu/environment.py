# SPDX-License-Identifier: Apache-2.0
"""The server's own environment: the official CPU wheel and what it requires, on a CPU build of torch if there is one.

Made by pip, so that an index or folder which pip is configured with is asked for the CPU
build of torch. Where there is none, the plain build serves as well; it is larger.
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
from patchset.errors import PatchsetError
from patchset.inputs import fetch
from patchset.release import Release, this_machine

#: The torchvision that was released with a torch; vLLM's Qwen3.5 model file imports it.
_TORCHVISION = {"2.13.0": "0.28.0"}
#: Required by the wheel and not used by a text model; torch and torchvision are chosen by the lane.
_LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}


def environment(release: Release) -> Path:
    """The interpreter of an environment with the release's official CPU wheel; made once.

    Raises:
        PatchsetError: pip failed, or the lane does not know the torchvision of the release's torch.
    """
    if release.torch not in _TORCHVISION:
        raise PatchsetError(
            f"which torchvision belongs to torch {release.torch} is not known to the lane"
        )
    wheel = fetch.artifact(release.wheel("cpu", this_machine()))
    alone = (f"torchvision=={_TORCHVISION[release.torch]}", str(wheel))
    wanted = [f"torch=={release.torch}", *requirements(wheel)]
    named = "\n".join([sys.version, *wanted, *alone])
    key = hashlib.sha256(named.encode()).hexdigest()[:16]
    folder = build_dir() / f"env-{key}"
    with files.lock(folder):
        if not (folder / "READY").is_file():
            with console.step(f"make the server's environment, {len(wanted)} packages"):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *wanted)
                _pip(folder, "--no-deps", *alone)
                (folder / "READY").touch()
    return folder / "bin" / "python"


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires here, by its metadata, without what the lane chooses itself."""
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
    pip = [python, "-m", "pip", "install", "--no-input"]
    process.run(
        [*pip, "--progress-bar", "off", *arguments], prefix="pip", on_line=_show
    )


def _show(line: str) -> None:
    """Of what pip prints, the lines that say how far it is; hundreds of names are one line too many."""
    words = line.split()
    if words[:1] == ["Downloading"] and words[-1] in ("MB)", "GB)"):
        console.note(f"  pip: {line.strip()}")
    elif line.startswith("Installing collected packages"):
        console.note(f"  pip: installing {line.count(',') + 1} packages")
