# SPDX-License-Identifier: Apache-2.0
"""The stock tree: a release's untouched source as a git repository of one commit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset import console, files, git, paths
from patchset.errors import PatchsetError
from patchset.release import Release

#: Written into ``.git`` last: what the tree was made of. A tree without it was never
#: finished.
_STAMP = "patchset.json"

BRANCH = "main"


def stock_tree(release: Release) -> Path:
    """The stock tree ``build/trees/<release>/stock``, made if it is not there.

    A git repository whose only commit holds the source as the pin names it; its commit
    id depends on the source alone.
    """
    source = {"sdist": release.sdist.file, "sha256": release.sdist.sha256}
    tree = paths.trees_dir(release.name) / "stock"
    with files.lock(tree):
        stamp = read_stamp(tree) or {}
        head = stamp.pop("head", None)
        if head and stamp == source:
            if (
                git.text(tree, "status", "--porcelain", "--ignored")
                or git.text(tree, "rev-parse", "HEAD") != head
            ):
                raise PatchsetError(
                    f"the stock tree {tree} was changed",
                    "the stock tree is the reference: edit the patched one, and delete "
                    f"{tree} to have it made again",
                )
            return tree
        from patchset.inputs import fetch, unpack  # half a second, and only here

        with files.atomic_folder(tree) as temp:
            archive = fetch.artifact(release.sdist)
            with console.step(f"unpack {release.sdist.file}"):
                unpack.sdist(archive, temp)
            with console.step(f"commit the stock tree of {release.name}"):
                git.run(temp, "init", "--quiet", f"--initial-branch={BRANCH}")
                git.run(temp, "add", "--all", "--force")
                commit = ("commit", "--quiet", "--no-verify", "-m")
                message = f"stock {release.name}"
                git.run(temp, *commit, message, epoch=release.source_date_epoch)
            write_stamp(temp, source | {"head": git.text(temp, "rev-parse", "HEAD")})
    return tree


def read_stamp(tree: Path) -> dict[str, Any] | None:
    """What a tree says that it was made of, or None when it was not finished."""
    try:
        stamp = json.loads((tree / ".git" / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def write_stamp(tree: Path, stamp: Mapping[str, Any]) -> None:
    """Say in a tree what it was made of."""
    files.write_text(tree / ".git" / _STAMP, json.dumps(stamp, indent=1) + "\n")
