# SPDX-License-Identifier: Apache-2.0
"""The stock tree: a release's untouched source as a git repository of one commit."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset import console, files, git, paths
from patchset.errors import PatchsetError, tail
from patchset.release import Release

#: Written into ``.git`` last: what the tree was made of. A tree without it was never
#: finished.
_STAMP = "patchset.json"

BRANCH = "main"

#: The reference in a tree that marks where a series begins.
STOCK_REF = "refs/patchset/stock"

#: What running the tree's code and tests leaves.
_CACHES = re.compile(r"(^|/| )(__pycache__|\.(pytest|mypy|ruff)_cache)(/|$)|\.pyc$")


def stock_tree(release: Release) -> Path:
    """The stock tree ``build/trees/<release>/stock``, made if it is not there.

    A git repository whose only commit holds the source as the pin names it; its commit
    id depends on the source alone.
    """
    source = {"sdist": release.sdist.file, "sha256": release.sdist.sha256}
    tree = paths.trees_dir(release.name) / "stock"
    with files.lock(tree):
        stamp = _refuse_changes(tree)
        if source.items() <= stamp.items():
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
            _refuse_changes(tree)  # somebody may have worked there meanwhile
    return tree


def _refuse_changes(tree: Path) -> dict[str, Any]:
    """Refuse a stock tree that is not as it was made; else its stamp."""
    stamp = read_stamp(tree) or {}
    if work := work_in(tree, stamp):
        raise PatchsetError(
            f"the stock tree {tree} was changed: {work}",
            "it is the reference, and the patched tree is the one to edit: take that "
            f"out, or keep what you need elsewhere and delete {tree}",
        )
    return stamp


def work_in(tree: Path, stamp: Mapping[str, Any]) -> str:
    """The work in a tree that its stamp does not explain, in words; else ""."""
    try:
        return _work(tree, stamp) if tree.exists() else ""
    except git.GitError as error:
        return f"git cannot read it ({tail(error.stderr, 200)})"


def _work(tree: Path, stamp: Mapping[str, Any]) -> str:
    head, stock = stamp.get("head"), stamp.get("stock")
    if not head:
        return "it has no stamp of the tool's"
    if git.text(tree, "rev-parse", "HEAD") != head:
        return "commits"
    if branch := other_branch(tree):
        return f"it is on {branch}, not on {BRANCH}"
    listed = git.text(tree, "for-each-ref", "--format=%(refname) %(objectname)")
    known = {f"refs/heads/{BRANCH} {head}", f"{STOCK_REF} {stock}", ""}
    if others := sorted(set(listed.split("\n")) - known):
        return ", ".join(line.split(" ")[0] for line in others[:5])
    places = ["worktrees", "rebase-merge", "MERGE_HEAD", "CHERRY_PICK_HEAD"]
    # Without edits, the tool's own stop holds nothing.
    places += [] if stamp.get("stopped") else ["rebase-apply"]
    for name in places:
        place = tree / ".git" / name
        if place.is_file() or (place.is_dir() and any(place.iterdir())):
            return f".git/{name}"
    # Lower case: assume-unchanged; S: skip-worktree. git status shows neither.
    for line in git.text(tree, "ls-files", "-v").split("\n"):
        if line and (line[0].islower() or line[0] == "S"):
            return f"{line[2:]}, which is hidden from git status"
    changed = git.text(tree, "status", "--porcelain", "--ignored").splitlines()
    return ", ".join([line[3:] for line in changed if not _CACHES.search(line)][:5])


def other_branch(tree: Path) -> str:
    """The branch that a tree is on, if it is not the tool's; else ""."""
    head = git.attempt(tree, "symbolic-ref", "--quiet", "HEAD").stdout.strip()
    branch = head.removeprefix("refs/heads/") or "no branch"
    return "" if branch == BRANCH else branch


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
