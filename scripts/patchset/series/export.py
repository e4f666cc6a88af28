# SPDX-License-Identifier: Apache-2.0
"""The way back: ``git format-patch`` makes diffs of the commits of a tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchset import console, files, git, paths
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release, releases
from patchset.series import patched_files
from patchset.series.apply import (
    ENTRY,
    STOCK_REF,
    borrow,
    changes_between,
    computed,
    locked_tree,
    replayed,
    stopped_at,
)
from patchset.series.mail import Patch, PatchFormatError, parse, plain
from patchset.series.read import (
    FILES,
    SHARED,
    Series,
    content_of,
    entries,
    entry_file,
    is_entry,
    read,
    series_file,
    users,
)
from patchset.series.stock_tree import read_stamp, write_stamp

_PLACE = re.compile(r"^@@ -\S+ \+\S+ @@.*$", re.MULTILINE)

#: What the user's configuration, or git's next version, could change.
_DIFF = (
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
    *_DIFF,
)


@dataclass(frozen=True)
class Exported:
    """The commits on top of a stock commit: own modules, and patches in order.

    ``commits`` are those of the patches, by their line in the series.
    """

    tree: Path
    files: dict[str, bytes]
    patches: list[Patch]
    commits: dict[str, str]

    def says(self, stored: Patch, patch: Patch) -> bool:
        """Whether a stored diff says what one of the patches does.

        It may have other line numbers, and fewer lines around its hunks.
        """
        if _words(stored) != _words(patch):
            return False
        if _hunks(stored) == _hunks(patch):
            return True
        commit = self.commits[patch.entry]
        with files.scratch(paths.build_dir()) as index:
            borrow(index, self.tree)
            git.run(index, "read-tree", f"{commit}^")
            apply = ("apply", "--cached", "--whitespace=nowarn", "-")
            if git.attempt(index, *apply, stdin=stored.diff.encode()).returncode:
                return False
            made = git.text(index, "write-tree")
        return made == git.text(self.tree, "rev-parse", f"{commit}^{{tree}}")

    def as_narrow(self, stored: Patch, patch: Patch) -> Patch:
        """One of the patches with as few lines around its hunks as a stored diff."""
        lines = min(3, _context(stored.diff))
        commit = self.commits[patch.entry]
        options = (*_DIFF, f"--unified={lines}", f"{commit}^", commit)
        return replace(patch, diff=plain(git.text(self.tree, "diff", *options))[0])

    def by_entry(self) -> dict[str, Patch]:
        """The patches by their line in the series."""
        return {patch.entry: patch for patch in self.patches}


@dataclass
class Outcome:
    """The result of a refresh: one line for each thing that changed."""

    lines: list[str] = field(default_factory=list)
    #: Entries whose files were written.
    written: set[str] = field(default_factory=set)
    #: Releases whose series does not apply any more.
    broken: dict[str, ConflictError] = field(default_factory=dict)


def exported(tree: Path, since: str, until: str) -> Exported:
    """Make patches of the commits from ``since`` to ``until``.

    Raises:
        PatchsetError: a commit cannot become a patch.
    """
    if git.attempt(tree, "merge-base", "--is-ancestor", since, until).returncode:
        what = f"{tree}: {until} does not descend from the stock commit"
        raise PatchsetError(what, f"rebase it onto {since}")
    commits = git.text(tree, "rev-list", "--reverse", f"{since}..{until}").split()
    own: dict[str, bytes] = {}
    patches: list[Patch] = []
    by_entry: dict[str, str] = {}
    faults: list[str] = []
    with files.scratch(paths.build_dir()) as folder:
        mails = mails_of(tree, since, until, folder)
        if len(mails) != len(commits) or not all(map(_size, mails)):
            hint = "a series is a line of changes: git rebase -i squashes or drops them"
            raise PatchsetError(
                f"{tree}: a commit is a merge, or changes nothing", hint
            )
        for commit, mail in zip(commits, mails, strict=True):
            short = commit[:12]
            try:
                patch = _of_mail(mail.read_bytes(), short)
            except PatchFormatError as error:
                faults.append(error.message)
                continue
            if patch.entry == "files":
                changed = changes_between(tree, f"{commit}^", commit)
                bad = [change.path for change in changed if change.stock is not None]
                faults += [f"{short}: {path} is no module of our own" for path in bad]
                own |= {c.path: c.content for c in changed if c.content is not None}
                continue
            if patch.entry in by_entry:
                faults.append(
                    f"{short}: a second commit for {patch.entry}; squash them"
                )
            faults += [f"{short} ({patch.subject}): {text}" for text in patch.faults()]
            patches.append(patch)
            by_entry[patch.entry] = commit
    if faults:
        raise PatchsetError(
            "these commits cannot become patches:\n  " + "\n  ".join(faults),
            "git commit --amend, or git rebase -i; a message is a subject, a reason and "
            "the trailers Upstream-Status, Drop-When and Proof (docs/patching.md)",
        )
    return Exported(tree, own, patches, by_entry)


def _size(file: Path) -> int:
    return file.stat().st_size


def mails_of(tree: Path, since: str, until: str, folder: Path) -> list[Path]:
    """Write a mail for each commit, with the names of all blobs."""
    where = ("-o", str(folder), f"{since}..{until}")
    git.run(tree, "format-patch", *_FORMAT, *where)
    return sorted(folder.glob("*.patch"))


def _of_mail(raw: bytes, where: str) -> Patch:
    """A patch of what ``format-patch`` wrote; its entry is the trailer's, or new."""
    patch = parse(raw, where, "")
    named = [value for key, value in patch.trailers if key == ENTRY]
    slug = re.sub(r"[^a-z0-9]+", "-", patch.subject.lower()).strip("-")[:60].strip("-")
    entry = named[0] if named else f"{slug or 'patch'}.diff"
    if entry != "files" and (not is_entry(entry) or entry.startswith(FILES)):
        raise PatchFormatError(f"{where}: {entry[:80]!r} names no diff of a series")
    trailers = tuple(pair for pair in patch.trailers if pair[0] != ENTRY)
    return replace(patch, entry=entry, trailers=trailers)


def alike(one: Patch, other: Patch) -> bool:
    """Whether two patches differ in line numbers alone."""
    return _words(one) == _words(other) and _hunks(one) == _hunks(other)


def _words(patch: Patch) -> tuple[object, ...]:
    return patch.author, patch.subject, patch.body, patch.trailers


def _hunks(patch: Patch) -> str:
    return _PLACE.sub("@@", patch.diff)


def _context(diff: str) -> int:
    """The lines around the hunks of a diff: the most that one begins with."""
    leading = re.findall(r"^@@ .*\n((?: .*\n)*)", diff, re.MULTILINE)
    return max((lines.count("\n") for lines in leading), default=3)


def refresh(release: Release, *, everything: bool = False) -> Outcome:
    """Write the commits of the release's patched tree back, then what is generated.

    ``patched-files.sha256`` is computed for this release, those that share a file
    which was written, or ``everything``. Nothing is written if a commit cannot become a
    patch.
    """
    outcome = Outcome()
    tree = paths.trees_dir(release.name) / "patched"
    with files.lock(tree):
        applied = _save(release, tree, outcome)
        chosen = [
            other
            for other in releases()
            if everything
            or other.name == release.name
            or not outcome.written.isdisjoint(entries(other))
        ]
        generate(chosen, outcome)
        if applied is not None:
            stamp = {**(read_stamp(tree) or {}), "inputs": read(release).inputs}
            stamp["patches"] = applied
            stamp["stopped"] = False
            stamp["pinned"] = patched_files.read(release)
            stamp["head"] = git.text(tree, "rev-parse", "HEAD")
            write_stamp(tree, stamp)
    return outcome


def generate(chosen: Sequence[Release], outcome: Outcome) -> None:
    """Compute and write ``patched-files.sha256``."""

    def sums(release: Release) -> dict[str, str] | ConflictError:
        try:
            return patched_files.sums_of(computed(read(release)))
        except ConflictError as error:
            return error

    with (
        ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool,
        console.progress("series", len(chosen), unit="releases") as advance,
    ):
        for release, found in zip(chosen, pool.map(sums, chosen), strict=True):
            advance(1)
            place = patched_files.file(release)
            if isinstance(found, ConflictError):
                outcome.broken[release.name] = found
            elif _write(place, patched_files.text(found)):
                outcome.lines.append(f"wrote {release.name}/{place.name}")


def _write(place: Path, text: str) -> bool:
    """Make a file say ``text``, or not be there; whether that changed anything."""
    if not text:
        there = place.exists()
        place.unlink(missing_ok=True)
        return there
    if place.is_file() and place.read_text(encoding="utf-8") == text:
        return False
    files.write_text(place, text)
    return True


def _save(release: Release, tree: Path, outcome: Outcome) -> list[str] | None:
    """Write the tree's commits into ``patches/``; the entries that it has applied.

    None without work in the tree.
    """
    stamp = read_stamp(tree)
    if stamp is None:
        return None
    if stopped_at(tree) is not None:
        hint = "git am --continue, --skip or --abort"
        raise PatchsetError(f"{tree}: git am is not finished", hint)
    if git.text(tree, "status", "--porcelain"):
        hint = "git commit --amend, or a commit of their own"
        raise PatchsetError(f"{tree} has changes that are not committed", hint)
    head = str(stamp["head"])
    if git.text(tree, "rev-parse", "HEAD") == head:
        return None
    aborted = git.attempt(tree, "merge-base", "--is-ancestor", head, "HEAD").returncode
    if stamp.get("stopped") and aborted:
        what = f"{tree}: apply stopped at a conflict, and git am was aborted"
        raise PatchsetError(what, f"nox -s apply -- {release.name} --discard")
    found = exported(tree, STOCK_REF, "HEAD")
    before = exported(tree, STOCK_REF, head)
    made = _Merge(release, stamp, before).merged(found)
    same_tree(tree, made)
    old = entries(release)
    applied = [patch.entry for patch in made.patches]
    gone = {*stamp["patches"], *(FILES + path for path in before.files)}
    gone -= {*applied, *(FILES + path for path in made.files)}
    lines = _lines(old, made, gone)
    outcome.written |= store(made)
    outcome.lines += [
        f"{'changed' if entry in old else 'added'} {entry}"
        for entry in sorted(outcome.written)
    ]
    _write(series_file(release), "".join(f"{line}\n" for line in lines))
    remove(release, gone)
    outcome.lines += [f"removed {entry}" for entry in sorted(gone)]
    return applied


class _Merge:
    """Merge the commits of a tree with files that may have changed since ``apply``."""

    def __init__(
        self, release: Release, stamp: dict[str, Any], before: Exported
    ) -> None:
        self.release = release
        self.inputs: dict[str, str] = stamp["inputs"]
        self.before = before

    def merged(self, found: Exported) -> Series:
        """The series, of the tree's edits and of files that it left alone."""
        old = self.before.by_entry()
        patches = [
            self._patch(found, patch, old.get(patch.entry)) for patch in found.patches
        ]
        own = {
            path: self._module(path, content) for path, content in found.files.items()
        }
        return Series(self.release, own, patches, {})

    def _patch(self, found: Exported, patch: Patch, before: Patch | None) -> Patch:
        file = entry_file(self.release, patch.entry)
        if not file.exists():
            return patch
        content = content_of(file)
        there = parse(content, file, patch.entry)
        edited = before is None or not alike(before, patch)
        if not edited or found.says(there, patch):
            return there
        self._refuse_both(patch.entry, content)
        reworded = replace(patch, diff=there.diff)
        if found.says(reworded, patch):
            return reworded
        return found.as_narrow(there, patch)

    def _module(self, path: str, content: bytes) -> bytes:
        file = entry_file(self.release, FILES + path)
        if not file.exists():
            return content
        there = content_of(file)
        if content in (there, self.before.files.get(path)):
            return there
        self._refuse_both(FILES + path, there)
        return content

    def _refuse_both(self, entry: str, content: bytes) -> None:
        if self.inputs.get(entry) != git.blob_id(content):
            raise PatchsetError(
                f"{entry} changed in the tree and, since apply, below patches/ as well",
                "git checkout one of the two, or put both changes into the tree",
            )


def same_tree(tree: Path, made: Series) -> None:
    """Refuse a series that does not make the tree again."""
    wanted = patched_files.sums_of(changes_between(tree, STOCK_REF, "HEAD"))
    with replayed(made) as copy:
        sums = patched_files.sums_of(changes_between(copy, STOCK_REF, "HEAD"))
    if sums != wanted:
        differing = sorted(dict(sums.items() ^ wanted.items()))
        raise PatchsetError(
            f"the diffs do not make the tree again: {', '.join(differing[:5])}",
            "a file below patches/ changed since apply; take it into the tree as well",
        )


def _lines(old: list[str], made: Series, gone: set[str]) -> list[str]:
    """The new series: the commits' order; what was not applied keeps its place."""
    own = {FILES + path for path in made.files}
    own |= {line for line in old if line.startswith(FILES)} - gone
    merged = [patch.entry for patch in made.patches]
    for number, entry in enumerate(old):
        if entry not in merged and entry not in gone and not entry.startswith(FILES):
            earlier = (other for other in reversed(old[:number]) if other in merged)
            before = next(earlier, None)
            place = merged.index(before) + 1 if before is not None else 0
            merged.insert(place, entry)
    return [*sorted(own), *merged]


def store(series: Series) -> set[str]:
    """Write modules and diffs that differ from their files; their entries."""
    contents = {patch.entry: patch.text() for patch in series.patches}
    contents |= {FILES + path: text.decode() for path, text in series.files.items()}
    return {
        entry
        for entry, text in contents.items()
        if _write(entry_file(series.release, entry), text)
    }


def remove(release: Release, gone: Iterable[str]) -> None:
    """Delete the files of entries that no series names any more."""
    among = releases()
    for entry in gone:
        shared = entry.startswith((FILES, *SHARED))
        if not shared or not users(entry, among):
            entry_file(release, entry).unlink(missing_ok=True)


def combined(release: Release) -> list[Path]:
    """Write one patch of the whole series for an installed vLLM, and its sums.

    ``build/export/vllm-VERSION-mtp.N.patch``, ``.before.sha256`` for the files that it
    changes, ``.after.sha256`` for those that it leaves.
    """
    name = f"vllm-{release.version}-mtp.{release.revision}"
    folder = paths.build_dir() / "export"
    with locked_tree(release) as tree:
        diff = git.run(tree, "diff", *_DIFF, STOCK_REF, "HEAD", "--", "vllm").decode()
        found = changes_between(tree, STOCK_REF, "HEAD")
    found = [change for change in found if change.path.startswith("vllm/")]
    before = [replace(c, content=c.stock) for c in found if c.stock is not None]
    made = {
        f"{name}.patch": diff,
        f"{name}.before.sha256": patched_files.text(patched_files.sums_of(before)),
        f"{name}.after.sha256": patched_files.text(patched_files.sums_of(found)),
    }
    with files.lock(folder):
        files.remove_temp(folder)
        for file, text in made.items():
            _write(folder / file, text)
    return [folder / file for file in made]
