# SPDX-License-Identifier: Apache-2.0
"""Whether the disks can hold an image while it is made: said before the work, not after an hour of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from patchset.errors import NoSpaceError
from patchset.release import Target

#: Bytes that the build folder needs at its worst moment: downloads, base, the archive and its parts.
BUILD = {"cuda": 14_000_000_000, "cpu": 4_000_000_000}
#: Bytes that the engine's storage needs at its worst moment: a layer while it is filled, packed and stored.
STORAGE = {"cuda": 20_000_000_000, "cpu": 9_000_000_000}


def check(target: Target, build: Path, storage: Path | None, *, have: int = 0, stored: int = 0) -> None:
    """Refuse to start when a disk is too small; ``have`` and ``stored`` bytes of what the two places need are there."""
    needs: dict[int, tuple[Path, int]] = {}
    for folder, size in ((build, BUILD[target] - have), (storage or build, STORAGE[target] - stored)):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        first, before = needs.get(there.stat().st_dev, (there, 0))
        needs[there.stat().st_dev] = (first, before + max(size, 0))
    for folder, size in needs.values():
        free = shutil.disk_usage(folder).free
        if free < size:
            raise NoSpaceError(
                f"the disk of {folder} has {free / 1e9:.1f} GB free; "
                f"a {target} image needs {size / 1e9:.0f} GB while it is made",
                "free some space there, or set PATCHSET_BUILD_DIR (what is made) and the engine's storage to larger disks",
            )
