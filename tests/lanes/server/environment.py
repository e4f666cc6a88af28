# SPDX-License-Identifier: Apache-2.0
"""The server's own environment: the official CPU wheel and what it requires.

Made by pip, which asks PyTorch's own index, too, for the CPU build of torch, and what
else it is configured with. Where neither has it, the plain build serves as well; it is
larger by gigabytes.
"""

import ctypes.util
import hashlib
import sys
import venv
from pathlib import Path

import httpx
from packaging.requirements import Requirement

from patchset import console, files, process
from patchset.errors import MissingToolError
from patchset.inputs import fetch, lock
from patchset.release import Release, this_machine
from server import build_dir

#: Where the CPU build of torch is published; PyPI has the one for CUDA alone.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
#: Bytes of the environment with the CPU build, while pip makes it.
_DISK = 4.5e9
#: Not used by a text model, or named here.
_LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}


def environment(release: Release) -> Path:
    """Return the interpreter of an environment with the official CPU wheel; made once.

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
    folder = build_dir() / f"env-{hashlib.sha256(named.encode()).hexdigest()[:16]}"
    with files.lock(folder):
        if not (folder / "READY").is_file():
            files.need_space({folder.parent: _DISK})
            with console.step("make the server's environment (4 GB)"):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *cpu_index(), *wanted)
                _pip(folder, "--no-deps", str(wheel))
                (folder / "READY").touch()
    return folder / "bin" / "python"


def requirements(wheel: Path) -> list[str]:
    """Return what the wheel requires but for the lane's choice; pip reads markers."""
    return [
        text
        for text in lock.requirements(wheel)
        if Requirement(text).name not in _LEFT_OUT
    ]


def cpu_index() -> list[str]:
    """Return pip's words for PyTorch's own index of CPU builds, if it answers."""
    try:
        url = f"{TORCH_INDEX}/torch/"
        httpx.head(url, timeout=10, follow_redirects=True).raise_for_status()
    except httpx.HTTPError:
        need = "without the CPU build of torch the CUDA build comes, gigabytes more"
        console.note(f"  {TORCH_INDEX} does not answer; {need}")
        return []
    return ["--extra-index-url", TORCH_INDEX]


def _pip(folder: Path, *arguments: str) -> None:
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--no-input")
    process.run([*pip, *arguments], prefix="pip", wordy=True)
