# SPDX-License-Identifier: Apache-2.0
"""Where things lie. Every path of the project is named here and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from patchset.base.errors import UsageError


def project_root() -> Path:
    """The checkout: ``PATCHSET_ROOT``, else the nearest folder upwards that has ``patches/`` and a ``noxfile.py``."""
    if named := os.environ.get("PATCHSET_ROOT"):
        return Path(named).resolve()
    starts = (Path.cwd(), Path(__file__).parent)
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "patches").is_dir() and (folder / "noxfile.py").is_file():
                return folder.resolve()
    raise UsageError(
        "no checkout of vllm-mtp-patches here: no folder upwards has patches/ and noxfile.py",
        "run from inside the checkout, or set PATCHSET_ROOT to it",
    )


def patches_dir() -> Path:
    """``patches/``: one folder a release, and ``common/``."""
    return project_root() / "patches"


def build_dir() -> Path:
    """Everything made: ``PATCHSET_BUILD_DIR``, else ``build/`` in the checkout (ignored by git)."""
    if named := os.environ.get("PATCHSET_BUILD_DIR"):
        return Path(named).resolve()
    return project_root() / "build"


def downloads_dir() -> Path:
    """Verified inputs, by file name: ``PATCHSET_DOWNLOADS``, else ``build/downloads``."""
    if named := os.environ.get("PATCHSET_DOWNLOADS"):
        return Path(named).resolve()
    return build_dir() / "downloads"


def from_dir() -> Path | None:
    """A folder that downloads are taken from, by file name, instead of the network: ``PATCHSET_FROM_DIR``."""
    named = os.environ.get("PATCHSET_FROM_DIR")
    return Path(named).resolve() if named else None


def trees_dir(release: str) -> Path:
    """The trees of one release, ``stock`` and ``patched`` below it."""
    return build_dir() / "trees" / release


def wheels_dir() -> Path:
    """Built wheels."""
    return build_dir() / "wheels"


def images_dir() -> Path:
    """Built images, as OCI archives."""
    return build_dir() / "images"
