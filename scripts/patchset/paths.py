# SPDX-License-Identifier: Apache-2.0
"""Where things lie. Every path of the project is named here and nowhere else."""

import os
from pathlib import Path

from patchset.errors import UsageError


def _named(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named).resolve() if named else None


def project_root() -> Path:
    """Return the checkout: ``PATCHSET_ROOT``, else the nearest folder upwards that is
    one.
    """
    if named := _named("PATCHSET_ROOT"):
        return named
    for folder in (Path.cwd(), *Path.cwd().parents, *Path(__file__).parents):
        if (folder / "patches").is_dir() and (folder / "noxfile.py").is_file():
            return folder.resolve()
    raise UsageError(
        "no checkout of vllm-mtp-patches here: no folder upwards has patches/ and "
        "noxfile.py",
        "run from inside the checkout, or set PATCHSET_ROOT to it",
    )


def patches_dir() -> Path:
    """Return ``patches/``: a folder for each patch, and what patches are for."""
    return project_root() / "patches"


def releases_dir() -> Path:
    """Return the folder of the releases, each with its pin and sums."""
    return patches_dir() / "releases"


def build_dir() -> Path:
    """Return the folder of everything made: ``PATCHSET_BUILD_DIR``, else ``build/`` in
    the checkout.
    """
    return _named("PATCHSET_BUILD_DIR") or project_root() / "build"


def downloads_dir() -> Path:
    """Return the folder of verified inputs: ``PATCHSET_DOWNLOADS``, else
    ``build/downloads``.
    """
    return _named("PATCHSET_DOWNLOADS") or build_dir() / "downloads"


def trees_dir(release: str) -> Path:
    """Return the trees of one release, ``stock`` and ``patched`` below it."""
    return build_dir() / "trees" / release
