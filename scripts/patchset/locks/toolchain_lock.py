# SPDX-License-Identifier: Apache-2.0
"""The locked packages that compile a release: torch, the CUDA toolkit, CMake and Ninja, all from the package index."""

from __future__ import annotations

import re
from pathlib import Path

from patchset import console, files
from patchset.errors import PatchsetError, UsageError
from patchset.locks import lock
from patchset.release import Arch, Release

#: Parts of the toolkit: the compiler with what it runs, and the libraries whose headers torch's CMake files ask for.
_TOOLKIT = (
    "nvcc", "cccl", "crt", "nvvm", "cudart", "cublas", "cusparse", "cusolver", "curand", "nvtx", "cupti", "nvrtc",
    "profiler",
)  # fmt: skip
#: The generator of the Machete kernels imports ``cutlass_library``, which this package has and the headers have not.
_CUTLASS_LIBRARY = "nvidia-cutlass"
#: What that package requires for other uses than its ``cutlass_library``.
_NOT_NEEDED = ("cuda-python", "pydot", "scipy", "treelib")
_BUILD_FILES = ("requirements/build/cuda.txt", "requirements/build.txt")
_CUDA_VERSION = re.compile(r"^ARG CUDA_VERSION=(\d+)\.(\d+)\.\d+$", re.MULTILINE)
#: From this major version on the toolkit's packages fill one folder that is a CUDA root.
_FIRST_CUDA = 13


def lock_file(release: Release) -> Path:
    """``patches/<release>/requirements.build.lock``."""
    return release.folder / "requirements.build.lock"


def make(release: Release, tree: Path, *, upgrade: bool = False) -> Path:
    """Resolve what the stock ``tree`` asks its build for, and the CUDA toolkit of its Dockerfile, and write the lock.

    Raises:
        UsageError: the release is of a CUDA whose packages make no toolkit.
        NoSolutionError: the index cannot meet the requirements.
    """
    cuda = cuda_version(tree)
    if int(cuda.partition(".")[0]) < _FIRST_CUDA:
        raise UsageError(
            f"{release.name} is built with CUDA {cuda}, whose packages do not make one CUDA root",
            "build where a toolkit is installed: nox -s build-wheel -- "
            f"{release.name} --mode source --python PYTHON (with CUDA_HOME set)",
        )
    declared = next((tree / name for name in _BUILD_FILES if (tree / name).is_file()), None)
    if declared is None:
        raise PatchsetError(f"{tree} has none of {', '.join(_BUILD_FILES)}")
    wanted = lock.read_requirements(declared, reasons=False)
    wanted += [f"cuda-toolkit[{','.join(_TOOLKIT)}]=={cuda}.*", _CUTLASS_LIBRARY]
    overrides = [f"{name} ; python_version < '3'" for name in _NOT_NEEDED]
    place = lock_file(release)
    old = lock.old_versions(place, upgrade=upgrade)
    archs: list[Arch] = sorted(release.wheels["cuda"])
    entries: lock.Entries = {}
    for arch in archs:
        with console.step(f"resolve what compiles {release.name}, {arch}, Python {lock.PYTHON}"):
            lock.resolve(entries, arch, wanted, lock.PYTHON, overrides, old)
    what = f"What compiles the modules of vLLM {release.name} (CUDA {cuda})"
    head = lock.head(what, f"nox -s lock -- {release.name} --for-build", lock.PYTHON, archs)
    files.write_text(place, head + lock.body(entries, archs))
    return place


def cuda_version(tree: Path) -> str:
    """Major and minor of the CUDA that the tree's Dockerfile builds with: ``13.0``."""
    match = _CUDA_VERSION.search((tree / "docker" / "Dockerfile").read_text(encoding="utf-8"))
    if match is None:
        raise PatchsetError(f"{tree}/docker/Dockerfile does not name CUDA_VERSION as it used to")
    return f"{match[1]}.{match[2]}"
