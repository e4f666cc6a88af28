# SPDX-License-Identifier: Apache-2.0
"""The way back: ``git format-patch`` makes diffs of the commits of a tree."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import PatchsetError
from patchset.series.apply import ENTRY, borrow, changes_between
from patchset.series.mail import MAIL, Patch, PatchFormatError, parse
from patchset.series.read import ENTRY_LINE, FILES
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


@dataclass(frozen=True)
class Commits:
    """The commits on top of a stock commit: own modules, and patches in order.

    ``commits`` are those of the patches, by their line in the series.
    """

    tree: Path
    modules: dict[str, bytes]
    patches: list[Patch]
    commits: dict[str, str]

    def says(self, stored: Patch, patch: Patch) -> bool:
        """Return whether a stored diff says what one of the patches does.

        It may have other line numbers, and fewer lines around its hunks.
        """
        if stored.message != patch.message:
            return False
        commit = self.commits[patch.entry]
        with files.scratch(paths.build_dir()) as index:
            borrow(index, self.tree, f"{commit}^")
            apply = ("apply", "--cached", "--whitespace=nowarn", "-")
            if git.attempt(index, *apply, stdin=stored.diff.encode()).returncode:
                return False
            made = git.text(index, "write-tree")
        return made == git.text(self.tree, "rev-parse", f"{commit}^{{tree}}")


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
    commits = git.text(tree, "rev-list", "--reverse", f"{STOCK_REF}..HEAD").split()
    found = Commits(tree, {}, [], {})
    faults: list[str] = []
    mails = re.split(f"^(?={MAIL})".encode(), mails_of(tree, STOCK_REF), flags=re.M)[1:]
    if len(mails) != len(commits):
        raise PatchsetError(
            f"{tree}: a commit is a merge, or changes nothing",
            "a series is a line of changes: git rebase -i squashes or drops them",
        )
    for commit, mail in zip(commits, mails, strict=True):
        try:
            patch = _of_mail(mail, commit[:12])
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
    """Add a commit to what was found; its faults."""
    short = commit[:12]
    if patch.entry == "files":
        changed = changes_between(found.tree, f"{commit}^", commit)
        found.modules.update(
            (c.path, c.content) for c in changed if c.content is not None
        )
        bad = [change.path for change in changed if change.stock is not None]
        return [f"{short}: {path} is not a module of ours" for path in bad]
    faults = [f"{short} ({patch.subject}): {fault}" for fault in patch.faults()]
    if patch.entry in found.commits:
        faults.append(f"{short}: a second commit for {patch.entry}; squash them")
    found.patches.append(patch)
    found.commits[patch.entry] = commit
    return faults


def mails_of(tree: Path, since: str) -> bytes:
    """Return a mail for each commit since another, with the names of all blobs."""
    return git.run(tree, "format-patch", "--stdout", *_FORMAT, f"{since}..HEAD")


def _of_mail(raw: bytes, where: str) -> Patch:
    """Return a patch of what ``format-patch`` wrote; its entry is the trailer's, or
    new.
    """
    patch = parse(raw, where, "")
    named = [value for key, value in patch.trailers if key == ENTRY]
    slug = re.sub(r"[^a-z0-9]+", "-", patch.subject.lower()).strip("-")[:60].strip("-")
    entry = named[0] if named else f"{slug or 'patch'}.diff"
    if entry != "files" and (
        not ENTRY_LINE.fullmatch(entry) or entry.startswith(FILES)
    ):
        raise PatchFormatError(
            f"{where}: {entry[:80]!r} names no diff of a series",
            f"amend its commit: {ENTRY}: NAME.diff",
        )
    trailers = tuple(pair for pair in patch.trailers if pair[0] != ENTRY)
    return replace(patch, entry=entry, trailers=trailers)
