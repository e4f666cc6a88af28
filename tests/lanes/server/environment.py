# SPDX-License-Identifier: Apache-2.0
"""The server's own environment: the official CPU wheel and what it requires.

Made by pip, so that an index or folder which pip is configured with is asked for the
CPU build of torch. Where there is none, the plain build serves as well; it is larger.
"""

import ctypes.util
import hashlib
import sys
import venv
from pathlib import Path

from packaging.requirements import Requirement

from patchset import console, files, process
from patchset.errors import MissingToolError
from patchset.inputs import fetch, lock
from patchset.release import Release, this_machine
from server import build_dir

#: Not used by a text model; of torch the plain build will do where there is no other.
_LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}


def environment(release: Release) -> Path:
    """The interpreter of an environment with the official CPU wheel; made once.

    Raises:
        MissingToolError: a library that vLLM's CPU build needs is missing.
        PatchsetError: pip failed.
    """
    if not ctypes.util.find_library("numa"):
        what = "vLLM's CPU build needs libnuma.so.1"
        raise MissingToolError(what, "apt-get install libnuma1")
    wheel = fetch.artifact(release.wheel("cpu", this_machine()))
    # vLLM's Qwen3.5 model file imports torchvision.
    wanted = [f"torch=={release.torch}", "torchvision", *requirements(wheel)]
    named = "\n".join([sys.version, *wanted, str(wheel)])
    key = hashlib.sha256(named.encode()).hexdigest()[:16]
    folder = build_dir() / f"env-{key}"
    with files.lock(folder):
        if not (folder / "READY").is_file():
            with console.step("make the server's environment"):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *wanted)
                _pip(folder, "--no-deps", str(wheel))
                (folder / "READY").touch()
    return folder / "bin" / "python"


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires, but for the lane's own choice; pip reads markers."""
    wanted = lock.requirements(wheel)
    return [text for text in wanted if Requirement(text).name not in _LEFT_OUT]


def _pip(folder: Path, *arguments: str) -> None:
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install")
    process.run([*pip, "--quiet", "--no-input", *arguments], prefix="pip")
