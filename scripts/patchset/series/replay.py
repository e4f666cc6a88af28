# SPDX-License-Identifier: Apache-2.0
"""A series applied in git's index alone: no file is checked out, so that all releases take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchset.base import files, git, paths
from patchset.base.errors import PatchsetError
from patchset.series.check import Fit, State, fit
from patchset.series.patch import Patch


@dataclass(frozen=True)
class Change:
    """One file that a series changes: ``path`` relative to the tree; None stands for no file on that side."""

    path: str
    stock: bytes | None
    content: bytes | None
    mode: int


@dataclass(frozen=True)
class Replayed:
    """One patch of a replay: how it fits, and the tree before and after it."""

    patch: Patch
    fit: Fit
    before: str
    after: str


class Index:
    """An index of its own over a repository's objects; what it writes goes into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, tree: str, only: Iterable[str]) -> None:
        """Begin with some files of a tree or commit: what is few is fast."""
        git.run(self.folder, "read-tree", "--empty")
        if paths_ := list(only):
            listed = git.run(self.folder, "--literal-pathspecs", "ls-tree", "-r", "-z", tree, "--", *paths_)
            git.run(self.folder, "update-index", "-z", "--index-info", stdin=listed)

    def apply(self, patch: Patch) -> Fit:
        """Put a patch in, if it fits."""
        found = fit(patch, self.folder)
        if found.state is State.APPLIES:
            git.run(self.folder, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.diff.encode())
        return found

    def tree(self) -> str:
        """The tree as it stands now."""
        return git.text(self.folder, "write-tree")

    def replay(self, stock: str, patches: Sequence[Patch]) -> Iterator[Replayed]:
        """Apply patches in order to what they touch of ``stock``; ends with the first that does not fit.

        The trees hold the files that the patches touch, and no others.
        """
        self.read(stock, sorted({path for patch in patches for path in patch.paths}))
        before = self.tree()
        for patch in patches:
            found = self.apply(patch)
            after = self.tree()
            yield Replayed(patch, found, before, after)
            if found.state is not State.APPLIES:
                return
            before = after


@contextmanager
def index_over(repository: Path) -> Iterator[Index]:
    """An index over the objects of ``repository``, which is left as it is."""
    objects = Path(git.text(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects"))
    with files.scratch(paths.build_dir()) as folder:
        git.run(folder, "init", "--quiet", "--bare", ".")
        (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")
        yield Index(folder)


def makes(index: Index, before: str, after: str, patch: Patch) -> bool:
    """Whether a patch makes one tree of another, and git has no place to choose."""
    touched = sorted({*patch.paths, *changed_paths(index.folder, before, after)})
    index.read(after, touched)
    wanted = index.tree()
    index.read(before, touched)
    found = index.apply(patch)
    if found.state is not State.APPLIES or any(offset.ambiguous for offset in found.offsets):
        return False
    return index.tree() == wanted


def same(repository: Path, commit: str, patch: Patch) -> bool:
    """Whether a patch makes of a commit's parent what the commit is."""
    with index_over(repository) as index:
        return makes(index, f"{commit}^", commit, patch)


def diff_text(repository: Path, *trees: str, lines: int = 3) -> str:
    """The diff between two trees, or of a commit, with so many ``lines`` around its hunks; without index lines and time
    stamps, so that the diff of two diffs stays small."""
    diff = git.run(
        repository, "diff-tree", "-p", "--no-commit-id", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
        f"--unified={lines}", "--inter-hunk-context=0", "--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/",
        "--full-index", "--root", *trees,
    )  # fmt: skip
    try:
        text = diff.decode()
    except UnicodeDecodeError as error:
        raise PatchsetError(
            f"{trees[-1][:12]} changes a file that is not UTF-8: {error}",
            "a diff holds plain text files alone",
        ) from error
    return re.sub(r"^index [0-9a-f]{40}\.\.[0-9a-f]{40}(?: \d{6})?\n", "", text, flags=re.MULTILINE)


def changed_paths(repository: Path, before: str, after: str) -> list[str]:
    """The files in which two trees differ."""
    listing = git.run(repository, "diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
    return [path for path in listing.decode().split("\0") if path]


def changes(repository: Path, before: str, after: str) -> list[Change]:
    """What differs between two trees of a repository, sorted by path."""
    listing = git.run(repository, "diff-tree", "-r", "-z", "--no-renames", before, after).decode().split("\0")
    found = []
    for meta, path in zip(listing[::2], listing[1::2], strict=False):
        _, mode, old, new, status = meta.removeprefix(":").split(" ")
        if mode not in ("100644", "100755", "000000"):
            raise PatchsetError(f"{path} is not a plain file")
        found.append(
            Change(
                path=path,
                stock=None if status == "A" else git.run(repository, "cat-file", "blob", old),
                content=None if status == "D" else git.run(repository, "cat-file", "blob", new),
                mode=0o755 if mode == "100755" else 0o644,
            )
        )
    return sorted(found, key=lambda change: change.path)
