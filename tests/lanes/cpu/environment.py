# SPDX-License-Identifier: Apache-2.0
"""The server's own environment: the wheel under test and what it requires, on a CPU build of torch if there is one.

Made by pip, so that an index or folder which pip is configured with is asked for the CPU build of torch. Where there
is none, the plain build serves as well; it is larger.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

from cpu import build_dir
from patchset import console, files, process
from patchset.errors import PatchsetError
from patchset.release import Release

#: The torchvision that was released with a torch; vLLM's Qwen3.5 model file imports it.
_TORCHVISION = {"2.13.0": "0.28.0"}
#: Required by the wheel and not used by a text model; torch and torchvision are chosen by the lane.
_LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton"}


@dataclass(frozen=True)
class Environment:
    """A folder made by venv with the wheel installed; ``shim_torchvision`` when its build does not fit torch's."""

    folder: Path
    versions: dict[str, str]

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def vllm(self) -> Path:
        """The command ``vllm``."""
        return self.folder / "bin" / "vllm"

    @property
    def shim_torchvision(self) -> bool:
        """A CPU build of torch lacks the operators that another build of torchvision expects."""
        return (
            "+cpu" in self.versions["torch"]
            and "+cpu" not in self.versions["torchvision"]
        )


def requirements(wheel: Path, without: set[str] = _LEFT_OUT) -> list[str]:
    """What the wheel requires here, by its metadata, without what the lane chooses itself."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA")
        )
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    wanted = [
        r
        for r in found
        if r.name not in without
        and (r.marker is None or r.marker.evaluate({"extra": ""}))
    ]
    for requirement in wanted:
        requirement.marker = None
    return sorted({str(requirement) for requirement in wanted})


def base(release: Release, wheel: Path) -> Environment:
    """The environment without the wheel: made once for a set of requirements, used by the checkpoint maker too.

    Raises:
        PatchsetError: pip failed, or the lane does not know the torchvision of the release's torch.
    """
    if release.torch not in _TORCHVISION:
        raise PatchsetError(
            f"which torchvision belongs to torch {release.torch} is not known to the lane"
        )
    wanted = [f"torch=={release.torch}", *requirements(wheel)]
    alone = f"torchvision=={_TORCHVISION[release.torch]}"
    key = hashlib.sha256("\n".join([sys.version, *wanted, alone]).encode()).hexdigest()[
        :16
    ]
    folder = build_dir() / f"env-{key}"
    done = folder / "READY"
    with files.lock(folder):
        if not done.is_file():
            with console.step(
                f"make the server's environment ({len(wanted) + 1} requirements; some minutes)"
            ):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *wanted)
                _pip(folder, "--no-deps", alone)
                done.touch()
    return Environment(folder, installed_versions(folder))


def cuda(release: Release, wheel: Path, name: str) -> Environment:
    """An environment for a GPU: a CUDA wheel and all that it requires, one for each ``name`` and set of requirements.

    Raises:
        PatchsetError: pip failed.
    """
    wanted = requirements(wheel, set())
    key = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:16]
    folder = build_dir() / f"env-{release.name}-{name}-{key}"
    with files.lock(folder):
        if not (folder / "READY").is_file():
            with console.step(
                f"make the environment of {release.name}, {name} (some minutes)"
            ):
                venv.create(folder, with_pip=True, clear=True)
                _pip(folder, *wanted)
                (folder / "READY").touch()
    return with_wheel(Environment(folder, installed_versions(folder)), wheel)


def with_wheel(environment: Environment, wheel: Path) -> Environment:
    """Install the wheel in place of any other; nothing is done when exactly this one is installed."""
    digest = files.sha256_file(wheel)
    mark = environment.folder / "WHEEL"
    if not mark.is_file() or mark.read_text(encoding="utf-8") != digest:
        mark.unlink(missing_ok=True)
        with console.step(f"install {wheel.name}"):
            _pip(
                environment.folder,
                "--no-deps",
                "--no-index",
                "--force-reinstall",
                "--no-compile",
                str(wheel),
            )
        mark.write_text(digest, encoding="utf-8")
    return Environment(environment.folder, installed_versions(environment.folder))


def _pip(folder: Path, *arguments: str) -> None:
    command: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--no-input",
        "--progress-bar",
        "off",
        *arguments,
    ]
    process.run(command, prefix="pip", on_line=_show)


def _show(line: str) -> None:
    """Of what pip prints, the lines that say how far it is; the names of hundreds of packages are one line too many."""
    words = line.split()
    if words[:1] == ["Downloading"] and words[-1] in ("MB)", "GB)"):
        console.note(f"  pip: {line.strip()}")
    elif line.startswith("Installing collected packages"):
        console.note(f"  pip: installing {line.count(',') + 1} packages")


def installed_versions(
    folder: Path,
    names: Sequence[str] = (
        "vllm",
        "torch",
        "torchvision",
        "transformers",
        "openai",
        "anthropic",
    ),
) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json, platform, sys\n"
        "found = {'python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n        found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError:\n        pass\n"
        "print(json.dumps(found))"
    )
    ended = subprocess.run(
        [str(folder / "bin" / "python"), "-c", code, *names],
        capture_output=True,
        text=True,
        check=True,
    )
    versions: dict[str, str] = json.loads(ended.stdout)
    return versions
