# SPDX-License-Identifier: Apache-2.0
"""The way back: patches of the commits of a tree."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import PatchsetError
from patchset.series.apply import ENTRY, borrow, changes_between
from patchset.series.mail import Patch, PatchFormatError, committed
from patchset.series.read import MODULES, NAME
from patchset.series.state import STOCK_REF

#: What the user's configuration, or git's next version, could change.
DIFF = (
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--full-index",
)
_FORMAT = (
    "--zero-commit",
    "--no-signature",
    "--no-stat",
    "--no-numbered",
    "--no-encode-email-headers",
    *DIFF,
)
#: How a commit is shown before its changes: id, subject and the rest of its message.
_FORM = "--format=%x00%H%x00%s%x00%b%x00"
_SHOWN = re.compile(rb"\0([0-9a-f]{40})\0([^\0]*)\0([^\0]*)\0\n*")


@dataclass(frozen=True)
class Commits:
    """The commits on top of a stock commit: own modules, and patches in order.

    ``commits`` are those of the patches, by their names.
    """

    tree: Path
    modules: dict[str, bytes]
    patches: list[Patch]
    commits: dict[str, str]

    def makes(self, name: str, diff: str) -> bool:
        """Return whether a diff does what the commit of a patch does.

        It may have other line numbers, and fewer lines around its hunks.
        """
        commit = self.commits[name]
        with files.scratch(paths.build_dir()) as index:
            borrow(index, self.tree, f"{commit}^")
            made = applied(index, diff)
        return made == git.text(self.tree, "rev-parse", f"{commit}^{{tree}}")


def applied(index: Path, diff: str) -> str | None:
    """Apply a diff to an index, exactly; the tree that it makes, or None."""
    apply = ("apply", "--cached", "--whitespace=nowarn", "-")
    if git.attempt(index, *apply, stdin=diff.encode()).returncode:
        return None
    return git.text(index, "write-tree")


def read_commits(tree: Path) -> Commits:
    """Make patches of the commits of a tree.

    Raises:
        PatchsetError: a commit cannot become a patch.
    """
    if git.attempt(tree, "merge-base", "--is-ancestor", STOCK_REF, "HEAD").returncode:
        raise PatchsetError(
            f"{tree}: HEAD does not descend from the stock commit",
            f"rebase it onto {STOCK_REF}",
        )
    listed = git.run(tree, "rev-list", "--reverse", f"{STOCK_REF}..HEAD")
    shown = git.run(tree, "diff-tree", "--stdin", "-p", *DIFF, _FORM, stdin=listed)
    parts = iter(_SHOWN.split(shown)[1:])
    commits = list(zip(parts, parts, parts, parts, strict=True))
    found = Commits(tree, {}, [], {})
    faults: list[str] = []
    if len(commits) != listed.count(b"\n"):
        raise PatchsetError(
            f"{tree}: a commit is a merge, or changes nothing",
            "a series is a line of changes: git rebase -i squashes or drops them",
        )
    for name, subject, message, diff in commits:
        commit = name.decode()
        try:
            patch = _named(committed(subject, message, diff, commit[:12]), commit[:12])
        except PatchFormatError as error:
            faults.append(error.message)
        else:
            faults += _take(found, commit, patch)
    if faults:
        raise PatchsetError(
            "these commits cannot become patches:\n  " + "\n  ".join(faults),
            f"git commit --amend for the last, git rebase -i {STOCK_REF} for any; a "
            "message is a subject, a reason and the trailers Upstream-Status, "
            "Drop-When and Proof (docs/patching.md)",
        )
    return found


def _take(found: Commits, commit: str, patch: Patch) -> list[str]:
    short = commit[:12]
    if patch.name == MODULES:
        changed = changes_between(found.tree, f"{commit}^", commit)
        found.modules.update(
            (c.path, c.content) for c in changed if c.content is not None
        )
        bad = [change.path for change in changed if change.stock is not None]
        return [f"{short}: {path} is not a module of ours" for path in bad]
    faults = [f"{short} ({patch.subject}): {fault}" for fault in patch.faults()]
    if patch.name in found.commits:
        faults.append(f"{short}: a second commit for {patch.name}; squash them")
    found.patches.append(patch)
    found.commits[patch.name] = commit
    return faults


def mails_of(tree: Path, since: str) -> bytes:
    """Return a mail for each commit since another, with the names of all blobs."""
    return git.run(tree, "format-patch", "--stdout", *_FORMAT, f"{since}..HEAD")


def _named(patch: Patch, where: str) -> Patch:
    """Return a patch by the name that its trailer gives, or by its subject."""
    given = [value for key, value in patch.trailers if key == ENTRY]
    slug = re.sub(r"[^a-z0-9]+", "-", patch.subject.lower()).strip("-")[:60].strip("-")
    name = given[0] if given else slug or "patch"
    if name != MODULES and not re.fullmatch(NAME, name):
        raise PatchFormatError(
            f"{where}: {name[:80]!r} is no name of a patch",
            f"amend its commit: {ENTRY}: NAME",
        )
    trailers = tuple(pair for pair in patch.trailers if pair[0] != ENTRY)
    return replace(patch, name=name, trailers=trailers)
