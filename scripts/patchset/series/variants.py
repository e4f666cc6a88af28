# SPDX-License-Identifier: Apache-2.0
"""Which diffs of a patch are written after an edit, and for which releases.

A diff that still does what the commit does is kept byte for byte. Else it is written
with the least context with which it does the same to each release that shares it. Where
there is none, the release gets a diff of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import files, git, paths
from patchset.release import Release, releases
from patchset.series import patched_files
from patchset.series.apply import borrow
from patchset.series.commits import DIFF, Commits, applied
from patchset.series.mail import Patch, plain
from patchset.series.mail import stored as read_patch
from patchset.series.read import REASON, content_of, lines, read_series, variant
from patchset.series.stock_tree import stock_tree

#: Lines around a hunk: the least that does is taken.
_CONTEXTS = (1, 2, 3)
_DIFF = tuple(word for word in DIFF if not word.startswith("--unified"))


@dataclass(frozen=True)
class _Side:
    """A release at the place of the patch, as an index.

    ``start`` is its tree, and ``before`` the one that the stored diff makes of it; None
    if it does not fit.
    """

    index: Path
    start: str
    before: str | None

    def apply(self, diff: str) -> str | None:
        """Return the tree that a diff makes; None if it does not fit."""
        git.run(self.index, "read-tree", self.start)
        return applied(self.index, diff)

    def edit(self, made: str) -> list[str]:
        """Return what a diff does beyond the stored one, wherever it does."""
        words = ("diff", *_DIFF, "--unified=0", self.before or "", made)
        lines = git.run(self.index, *words).decode().split("\n")
        return [line for line in lines if line.startswith(("diff ", "-", "+"))]


def written(release: Release, found: Commits, patch: Patch) -> dict[str, str]:
    """Return the diffs of a patch that must be written, by the names of their files.

    There are none if the stored one does what the commit does.
    """
    file = variant(patch.name, release.name)
    if file is None:
        return {f"{release.name}.diff": patch.diff}
    stored = read_patch(
        patch.name, content_of(file.with_name(REASON)), content_of(file), file
    ).diff
    if found.makes(patch.name, stored):
        return {}
    sharing = _sharing(release, patch.name, file)
    with files.scratch(paths.build_dir()) as folder:
        text, same = _least(folder, release, sharing, found, patch, stored)
    texts: dict[str, str] = {}
    last = ""
    for number, one in enumerate(sharing):
        mine = text if one.name in same else stored
        if mine != last:
            # The first of them keeps the file that there is.
            texts[f"{one.name}.diff" if number else file.name] = mine
        last = mine
    return {
        name: mine
        for name, mine in texts.items()
        if (name, mine) != (file.name, stored)
    }


def _least(
    folder: Path,
    release: Release,
    sharing: Sequence[Release],
    found: Commits,
    patch: Patch,
    stored: str,
) -> tuple[str, set[str]]:
    """Return the diff that does the same to most releases, and their names."""
    commit = found.commits[patch.name]
    goal = git.text(found.tree, "rev-parse", f"{commit}^{{tree}}")
    own = _side(folder / release.name, found.tree, f"{commit}^", [], stored)
    others = {
        other.name: _before(folder / other.name, other, patch, stored)
        for other in sharing
        if other.name != release.name
    }
    best, most = patch.diff, {release.name}
    for context in _CONTEXTS:
        options = (*_DIFF, f"--unified={context}", f"{commit}^", commit)
        text, _ = plain(git.run(found.tree, "diff", *options).decode().rstrip("\n"))
        if own.apply(text) != goal:
            continue
        same = {name for name, side in others.items() if _same(side, text, own, goal)}
        if best == patch.diff or len(same) >= len(most):
            best, most = text, {release.name, *same}
        if len(most) == len(sharing):
            break
    return best, most


def _sharing(release: Release, name: str, file: Path) -> list[Release]:
    taking = [line for line in lines() if line.entry == name]
    return [
        other
        for other in releases()
        if other.name == release.name
        or (
            patched_files.read(other) is not None
            and any(line.takes(other.name) for line in taking)
            and variant(name, other.name) == file
        )
    ]


def _same(side: _Side, text: str, own: _Side, goal: str) -> bool:
    """Return whether a diff edits another release as it does its own.

    Where the stored diff did not fit its own, as in a new release, it must leave the
    other as it was.
    """
    made = side.apply(text)
    if made is None or side.before is None:
        return False
    return (
        made == side.before if own.before is None else side.edit(made) == own.edit(goal)
    )


def _side(
    index: Path, tree: Path, commit: str, before: Sequence[Patch], stored: str
) -> _Side:
    index.mkdir(parents=True)
    borrow(index, tree, commit)
    for patch in before:
        applied(index, patch.diff)
    return _Side(index, git.text(index, "write-tree"), applied(index, stored))


def _before(index: Path, release: Release, patch: Patch, stored: str) -> _Side:
    """Return another release with the earlier patches that the patch's files need."""
    needed = {*patch.paths}
    chosen: list[Patch] = []
    earlier = read_series(release).patches
    names = [one.name for one in earlier]
    for one in reversed(earlier[: names.index(patch.name)]):
        if needed.intersection(one.paths):
            needed.update(one.paths)
            chosen.insert(0, one)
    return _side(index, stock_tree(release), "HEAD", chosen, stored)
