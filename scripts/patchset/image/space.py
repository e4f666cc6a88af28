# SPDX-License-Identifier: Apache-2.0
"""Whether the disks can hold an image while it is made, said before the work."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from patchset.errors import NoSpaceError
from patchset.release import Target

#: Bytes that a whole image needs in the build folder and in the engine's storage.
BUILD: dict[Target, int] = {"cuda": 15_000_000_000, "cpu": 4_000_000_000}
STORAGE: dict[Target, int] = {"cuda": 21_000_000_000, "cpu": 9_000_000_000}
#: What is asked for beside: other programs write too.
HEADROOM = 0.1


def with_headroom(size: float) -> float:
    """Return what must be free for ``size`` bytes to be written."""
    return size * (1 + HEADROOM) + 100_000_000


def check(needs: Mapping[Path, float]) -> None:
    """Refuse to start when a disk is too small for the bytes to be written to folders."""
    disks: dict[int, tuple[Path, float]] = {}
    for folder, size in needs.items():
        there = next(place for place in (folder, *folder.parents) if place.exists())
        first, before = disks.get(there.stat().st_dev, (there, 0))
        disks[there.stat().st_dev] = (first, before + max(size, 0))
    for folder, size in disks.values():
        free, wanted = shutil.disk_usage(folder).free, with_headroom(size)
        if free < wanted:
            raise NoSpaceError(
                f"the disk of {folder} has {free / 1e9:.1f} GB free; "
                f"this needs {wanted / 1e9:.1f} GB, headroom included",
                "free some space there, or set PATCHSET_BUILD_DIR, and the engine's "
                "storage, to larger disks",
            )
