# SPDX-License-Identifier: Apache-2.0
"""A series applied in git's index alone: no file is checked out, so that all releases take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release
from patchset.series import order
from patchset.series.check import Fit, State, fit
from patchset.series.patch import Patch
from patchset.series.stock_tree import stock_tree


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


@contextmanager
def index_over(repository: Path) -> Iterator[Path]:
    """A bare repository with an index of its own over another's objects; the other one is left as it is."""
    objects = Path(git.text(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects"))
    with files.scratch(paths.build_dir()) as folder:
        git.run(folder, "init", "--quiet", "--bare", ".")
        (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")
        yield folder


@contextmanager
def replayed(release: Release) -> Iterator[tuple[Path, list[Replayed]]]:
    """The whole series of a release on its stock tree, patch by patch, and the repository that holds the trees.

    The trees hold only the files that the series touches, which is faster.

    Raises:
        ConflictError: a patch does not fit.
    """
    stock, patches, steps = stock_tree(release), order.read(release), []
    with index_over(stock) as index:
        touched = sorted({path for patch in patches for path in patch.paths})
        listed = git.run(stock, "--literal-pathspecs", "ls-tree", "-r", "-z", "HEAD", "--", *touched)
        git.run(index, "update-index", "-z", "--index-info", stdin=listed)
        before = git.text(index, "write-tree")
        for patch in patches:
            found, after = _apply(index, patch)
            if found.state is not State.APPLIES:
                raise ConflictError(
                    f"{release.name}: {patch.name} {found.state.value}"
                    + "".join(f"\n  {words}" for words in found.rejected[:3]),
                    f"nox -s apply -- {release.name} shows it, and how to go on",
                )
            steps.append(Replayed(patch, found, before, after))
            before = after
        yield index, steps


def makes(index: Path, before: str, after: str, patch: Patch) -> bool:
    """Whether a patch makes one tree (or commit) of another, and git has no place to choose."""
    git.run(index, "read-tree", before)
    found, made = _apply(index, patch)
    return (
        found.state is State.APPLIES
        and not found.choices
        and made == git.text(index, "rev-parse", f"{after}^{{tree}}")
    )


def same(repository: Path, commit: str, patch: Patch) -> bool:
    """Whether a patch makes of a commit's parent what the commit is."""
    with index_over(repository) as index:
        return makes(index, f"{commit}^", commit, patch)


def _apply(index: Path, patch: Patch) -> tuple[Fit, str]:
    """Put a patch in, if it fits; the tree that comes out."""
    found = fit(patch, index)
    if found.state is State.APPLIES:
        git.run(index, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.diff.encode())
    return found, git.text(index, "write-tree")


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
        what = f"{trees[-1][:12]} changes a file that is not UTF-8: {error}"
        raise PatchsetError(what, "a diff holds plain text files alone") from error
    return re.sub(r"^index [0-9a-f]{40}\.\.[0-9a-f]{40}(?: \d{6})?\n", "", text, flags=re.MULTILINE)


def changes(repository: Path, before: str, after: str) -> list[Change]:
    """What differs between two trees of a repository, sorted by path."""
    listing = git.run(repository, "diff-tree", "-r", "-z", "--no-renames", before, after).decode().split("\0")
    found = []
    for meta, path in zip(listing[::2], listing[1::2], strict=False):
        _, mode, old, new, status = meta.removeprefix(":").split(" ")
        if mode not in ("100644", "100755", "000000"):
            raise PatchsetError(f"{path} is not a plain file")
        stock = None if status == "A" else git.run(repository, "cat-file", "blob", old)
        content = None if status == "D" else git.run(repository, "cat-file", "blob", new)
        found.append(Change(path, stock, content, 0o755 if mode == "100755" else 0o644))
    return sorted(found, key=lambda change: change.path)
