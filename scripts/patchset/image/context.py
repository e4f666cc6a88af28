# SPDX-License-Identifier: Apache-2.0
"""What an engine gets to see: a made folder with exactly the files that the Dockerfile names."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.install import doctor
from patchset.locks.wheelhouse import Locked

#: What of docker/ is mounted into the build and run or copied by its setup step.
SETUP = ("setup.cuda.sh", "setup.cpu.sh", "torchvision_without_cuda.py", "torchvision_without_cuda.pth")
#: The name in an image, below ``/usr/local/bin``, of the program that says which patches are live.
DOCTOR = "vllm-mtp-doctor"


def full(
    folder: Path, *, wheel: Path, wheels: Iterable[Path], locks: Iterable[Locked], uv_wheel: Path
) -> None:
    """The context of ``docker/Dockerfile.full``: the lock, the dependencies' wheels, the patched wheel, uv."""
    for name in ("lock", "bin", "wheels", "wheel", "setup"):
        (folder / name).mkdir()
    (folder / "lock" / "requirements.lock").write_text(_lock_text(locks), encoding="utf-8")
    for path in wheels:
        link(path, folder / "wheels" / path.name)
    link(wheel, folder / "wheel" / wheel.name)
    (folder / "wheel.sha256").write_text(f"{files.sha256_file(wheel)}  {wheel.name}\n", encoding="utf-8")
    _extract_uv(uv_wheel, folder / "bin" / "uv")
    docker = paths.project_root() / "docker"
    shutil.copyfile(docker / "forget-times.sh", folder / "bin" / "forget-times.sh")
    for name in SETUP:
        shutil.copyfile(docker / name, folder / "setup" / name)
    shutil.copyfile(doctor.__file__, folder / "setup" / DOCTOR)


def _lock_text(locks: Iterable[Locked]) -> str:
    """A lock in pip's format of what is really installed: sorted, one sha256 set each, no markers."""
    lines = []
    for locked in sorted(locks, key=lambda entry: entry.name):
        hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(locked.sha256))
        lines.append(f"{locked.name}{locked.requirement.specifier}{hashes}\n")
    return "".join(lines)


def link(source: Path, place: Path) -> None:
    """A second name for a file; a copy where that is on another disk."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _extract_uv(wheel: Path, place: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = [info for info in archive.infolist() if info.filename.endswith(".data/scripts/uv")]
        if len(found) != 1 or found[0].file_size > 200 << 20:
            raise PatchsetError(
                f"{wheel.name} does not contain the program uv", "docker/uv.lock pins the wrong file"
            )
        place.write_bytes(archive.read(found[0]))
    place.chmod(0o755)
