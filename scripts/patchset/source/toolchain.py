# SPDX-License-Identifier: Apache-2.0
"""The environment that compiles: a Python with torch and CMake, and a CUDA root, of the lock or of one's own."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, paths, process
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.locks import toolchain_lock, uv, wheelhouse
from patchset.release import Arch, Release

#: Where the toolkit's packages make a CUDA root, from CUDA 13 on.
_CUDA_ROOT = "nvidia/cu13"
#: CMake's target CUDA::cuda_driver wants a driver library to link with; the driver itself comes with a GPU's machine.
DRIVER = "libcuda.so.1"

_ASK_TORCH = """\
import sysconfig
import torch
print(torch.__version__, torch.version.cuda, sysconfig.get_path("purelib"), sep="\\n")
"""
_ASK_HEADERS = """\
import sys, sysconfig
print(*sys.version_info[:2], sep=".")
print(sysconfig.get_path("include"))
"""


@dataclass(frozen=True)
class Toolchain:
    """A Python that has torch, the CUDA root, and torch's version."""

    python: Path
    cuda: Path
    torch: str

    def nvcc_version(self) -> str:
        """The last number that ``nvcc --version`` gives: ``13.0.88``."""
        done = subprocess.run(
            [self.cuda / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=False
        )
        found = re.search(r"\bV(\d[^\s,]*)", done.stdout)
        return found[1] if found else "unknown"


def place(release: Release) -> Path:
    """Where the locked toolchain of a release is installed; releases with the same lock share it."""
    lock = toolchain_lock.lock_file(release)
    if not lock.is_file():
        raise UsageError(
            f"{release.name} has no {lock.name}",
            f"nox -s lock -- {release.name} --for-build writes it; "
            "or build with an environment of your own: --python PYTHON",
        )
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    return paths.build_dir() / "source" / f"toolchain-{digest}"


def locked(release: Release, arch: Arch) -> Toolchain:
    """The toolchain of ``requirements.build.lock``, installed when it is not there yet."""
    folder = place(release)
    with files.lock(folder):
        files.remove_temp(folder.parent, folder.name)
        if not folder.is_dir():
            interpreter = find_python()
            lock = toolchain_lock.lock_file(release)
            pins = wheelhouse.read_lock(lock.read_text(encoding="utf-8"), arch, origin=str(lock))
            wheels = wheelhouse.gather(pins, arch)
            with (
                console.step(f"install the compiler's environment into {folder}"),
                files.atomic_folder(folder) as temp,
            ):
                # One that can be moved, with exactly these wheels.
                venv = ["venv", "--relocatable", "--python", interpreter, "--allow-existing", temp]
                python = temp / "bin" / "python"
                install = ["pip", "install", "--no-deps", "--no-index", "--python", python, *wheels]
                for step in (venv, install):
                    alone = ("--quiet", "--offline", "--no-cache", "--no-config")
                    process.run([uv.binary(), *map(str, step), *alone], prefix="uv")
                _complete(next(temp.glob("lib/python3.*/site-packages")) / _CUDA_ROOT)
    return _looked_at(folder / "bin" / "python", None, release)


def own(python: Path, release: Release) -> Toolchain:
    """An environment that the user made; its CUDA root is ``CUDA_HOME``, else the toolkit among its packages."""
    home = os.environ.get("CUDA_HOME")
    return _looked_at(python, Path(home) if home else None, release)


def find_python() -> Path:
    """A Python of the lock's version, with the headers that extension modules include."""
    wanted = ".".join(map(str, wheelhouse.PYTHON))
    # This one, when it fits; else the system's.
    this = getattr(sys, "_base_executable", sys.executable)
    for candidate in filter(None, (this, shutil.which(f"python{wanted}"), shutil.which("python3"))):
        done = subprocess.run([candidate, "-c", _ASK_HEADERS], capture_output=True, text=True, check=False)
        version, _, include = done.stdout.strip().partition("\n")
        if version == wanted and (Path(include) / "Python.h").is_file():
            return Path(candidate)
    raise MissingToolError(
        f"compiling needs Python {wanted}, which the lock is for, with its headers (Python.h)",
        f"apt-get install python{wanted}-dev",
    )


def _complete(root: Path) -> None:
    """What CMake looks for in a CUDA root and the packages lack: lib64, names without versions, a driver to link with."""
    libraries = root / "lib"
    (root / "lib64").symlink_to("lib")
    for library in sorted(libraries.glob("*.so.*")):
        plain = libraries / f"{library.name.partition('.so.')[0]}.so"
        if not plain.exists():
            plain.symlink_to(library.name)
    _stand_in(root / "include" / "cuda.h", libraries / "stubs")


def _stand_in(header: Path, folder: Path) -> None:
    """A driver library to link with. It defines all that its header names: the linker leaves a library out of a module
    that asks it for nothing (--as-needed), and the module would not be loaded where the driver is."""
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise PatchsetError(f"the CUDA toolkit has no {header.name}: {error}") from error
    names = sorted(set(re.findall(r"\bcu[A-Z]\w*", text)))
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [os.environ.get("CC", "gcc"), "-shared", "-x", "c", "-", f"-Wl,-soname,{DRIVER}", "-o", "libcuda.so"],
        input="".join(f"int {name}(void) {{ return 1; }}\n" for name in names),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PatchsetError(f"the stand-in for {DRIVER} cannot be linked: {done.stderr.strip()[-500:]}")


def _looked_at(python: Path, cuda: Path | None, release: Release) -> Toolchain:
    done = subprocess.run([python, "-c", _ASK_TORCH], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            f"torch cannot be imported by {python}: {done.stderr.strip().splitlines()[-1:]}",
            f"install torch {release.torch}, cmake, ninja, setuptools and what the release's build asks for there",
        )
    torch, torch_cuda, site = done.stdout.strip().splitlines()
    if torch.partition("+")[0] != release.torch:
        raise UsageError(
            f"{python} has torch {torch}; {release.name} is compiled with torch {release.torch}",
            f"install torch=={release.torch} there, or leave --python out to have the locked environment installed",
        )
    if torch_cuda == "None":
        raise UsageError(f"the torch of {python} is built without CUDA", "install its CUDA build")
    root = cuda or Path(site) / _CUDA_ROOT
    if not (root / "bin" / "nvcc").is_file():
        raise UsageError(
            f"{root} has no CUDA compiler (bin/nvcc)", "set CUDA_HOME to the folder of a CUDA toolkit"
        )
    return Toolchain(python, root, torch)
