# SPDX-License-Identifier: Apache-2.0
"""The way back: the commits of a patched tree become diffs, and what the tool generates in ``patches/`` is written anew."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release, releases
from patchset.series import order, patched_files, sources
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF
from patchset.series.patch import Patch, PatchFormatError, parse, parse_header
from patchset.series.patch import read as read_patch
from patchset.series.replay import diff_text, same
from patchset.series.stock_tree import read_stamp, write_stamp

_TRAILER = re.compile(rf"^{ENTRY_TRAILER}: (\S+)$", re.MULTILINE)
_PLACE = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*$", re.MULTILINE)


@dataclass
class Outcome:
    """What a refresh did, by entries of the series."""

    unchanged: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    #: Files below ``patches/`` that were generated and came out different, relative to it.
    generated: list[str] = field(default_factory=list)
    #: Releases whose series does not apply as it stands, and why.
    broken: dict[str, ConflictError] = field(default_factory=dict)

    def note(self, place: Path) -> None:
        """Add a generated file."""
        name = place.relative_to(paths.patches_dir()).as_posix()
        if name not in self.generated:
            self.generated.append(name)


def refresh(release: Release, *, everything: bool = False) -> Outcome:
    """Save the commits of the release's patched tree as diffs, if somebody made any; then ``generate``.

    Patches of the series that the tree was made without (``--upto``, ``--without``, a conflict) stay as they
    are, at their place. Nothing is written when a commit cannot be made a patch. ``everything`` generates for
    all releases, otherwise for this one and those that share a diff which changed.
    """
    before = _shared()
    outcome = _save(release)
    for place in sorted(paths.patches_dir().glob("*/*.diff")):
        if sources.fill(place):
            outcome.note(place)
    touched = dict(_shared().items() - before.items())
    chosen = [
        other
        for other in releases()
        if everything
        or other.name == release.name
        or any(order.entry_file(other, entry) in touched for entry in order.entries(other))
    ]
    generate(chosen, outcome)
    return outcome


def generate(found: Iterable[Release], outcome: Outcome) -> None:
    """Write the spans of shared diffs, what each series makes (``patched-files.sha256``)."""
    for place, text in spans().items():
        if place.read_text(encoding="utf-8") != text:
            files.write_text(place, text)
            outcome.note(place)
    for release in found:
        try:
            if patched_files.write(release, patched_files.compute(release)):
                outcome.note(patched_files.file(release))
        except ConflictError as error:
            outcome.broken[release.name] = error


def spans() -> dict[Path, str]:
    """Each shared diff as it must stand: with the releases that use it in its header."""
    among = releases()
    found = {}
    for place in sorted(_shared()):
        entry = place.relative_to(paths.patches_dir()).as_posix()
        patch = read_patch(place, entry)
        if users := [release for release in among if entry in order.entries(release)]:
            header = patch.header.with_field("Releases", order.spans(users, among))
            found[place] = replace(patch, header=header).text()
    return found


def _shared() -> dict[Path, bytes]:
    return {place: place.read_bytes() for place in order.shared_files()}


def _save(release: Release) -> Outcome:
    """Write the commits of the patched tree as the release's diffs and series; nothing for a tree without edits."""
    tree = paths.trees_dir(release.name) / "patched"
    with files.lock(tree):
        stamp, old = read_stamp(tree), order.entries(release)
        if stamp is None:
            return Outcome(unchanged=old)
        if git.text(tree, "status", "--porcelain"):
            raise PatchsetError(
                f"{tree} has changes that are not committed",
                "commit them (git commit --amend, or a commit of their own)",
            )
        files.remove_temp(paths.patches_dir(), release.name)
        files.remove_scratch(paths.build_dir())
        if git.text(tree, "rev-parse", "HEAD") == stamp["head"]:
            return Outcome(unchanged=old)
        commits = patches_of_commits(release, tree, old)
        applied = [entry for entry, _ in stamp["patches"]]
        originals = {}
        # None where git has forgotten the commits that ``apply`` made.
        for commit in _commits(tree, stamp["head"]) or ():
            patch = patch_of_commit(release, tree, commit, applied, [])
            originals[patch.entry] = commit, patch
        outcome, made = Outcome(), []
        for commit, patch in commits:
            if not patch.file.is_file():
                outcome.added.append(patch.entry)
            else:
                there = read_patch(patch.file, patch.entry)
                before = originals.get(patch.entry, ("", there))
                patch = _settled(release, tree, commit, patch, there, *before)
                which = outcome.unchanged if patch.text() == there.text() else outcome.changed
                which.append(patch.entry)
            made.append(patch)
        kept = [patch.entry for patch in made]
        outcome.removed = [entry for entry in applied if entry not in kept]
        _write(release, made, _merged(old, applied, kept), outcome)
        stamp["patches"] = [[patch.entry, git.blob_id(patch.file.read_bytes())] for patch in made]
        stamp["head"] = git.text(tree, "rev-parse", "HEAD")
        write_stamp(tree, stamp)
    return outcome


def _commits(tree: Path, tip: str) -> list[str] | None:
    """The commits from the stock tree to ``tip``, oldest first; None when it does not stand on the stock tree."""
    if git.attempt(tree, "merge-base", "--is-ancestor", STOCK_REF, tip)[0] != 0:
        return None
    return git.text(tree, "rev-list", "--reverse", f"{STOCK_REF}..{tip}").split()


def patches_of_commits(release: Release, tree: Path, old: list[str]) -> list[tuple[str, Patch]]:
    """The commits on top of the stock tree, each with the patch that it is; ``old`` as ``patch_of_commit`` takes it.

    Raises:
        PatchsetError: a commit is a merge, has a fault in its header, or a diff that cannot stand for it.
    """
    if (commits := _commits(tree, "HEAD")) is None:
        raise PatchsetError(
            f"{tree}: HEAD does not descend from the stock commit", "rebase onto it: " + STOCK_REF
        )
    if merges := git.text(tree, "rev-list", "--merges", f"{STOCK_REF}..HEAD"):
        raise PatchsetError(f"{tree}: {merges[:12]} is a merge", "a series is a line: rebase it away")
    made: dict[str, tuple[str, Patch]] = {}
    faults: list[str] = []
    for commit in commits:
        patch = patch_of_commit(release, tree, commit, old, list(made))
        found = [*patch.header.faults(), *_unstorable(tree, commit, patch)]
        faults += [f"{commit[:12]} ({patch.subject}): {fault}" for fault in found]
        if patch.entry in made:
            faults.append(f"{commit[:12]}: a second commit for {patch.entry}; squash the two (git rebase -i)")
        made[patch.entry] = commit, patch
    if faults:
        raise PatchsetError(
            "these commits cannot become patches:\n  " + "\n  ".join(faults),
            "git commit --amend: the subject line, an empty line, then the fields of the header, one a line "
            "(Reason, Origin, Upstream-Status, Drop-When, Proof, Last-Refresh); a diff holds plain text files alone",
        )
    return list(made.values())


def _unstorable(tree: Path, commit: str, patch: Patch) -> Iterator[str]:
    """Why the diff of a commit cannot stand for it: binary files, links, modes, empty files, submodules …"""
    try:
        parse(patch.text().encode(), patch.file, patch.entry)
        if not same(tree, commit, patch):
            yield "its diff does not hold all of it"
    except PatchFormatError as error:
        yield error.message.removeprefix(f"{patch.file}: ")


def _settled(
    release: Release, tree: Path, commit: str, patch: Patch, there: Patch, old: str, original: Patch
) -> Patch:
    """Keep of a diff what its commit leaves as it was: the header, and the hunks where they make the same tree.

    So a shared diff stays shared when only its place moved, and a file of ``patches/files`` that was edited since
    ``apply`` is not overwritten by the tree's older one. ``there`` is the diff as it stands; ``original`` the patch of
    ``old``, the commit that ``apply`` made. Where that is not known, ``old`` is "" and ``original`` is ``there``.
    """

    def differ(one: Patch, other: Patch) -> tuple[bool, bool]:
        """Whether the headers differ, apart from what is generated, and whether the hunks do, apart from their places."""
        headers = [patch.header.without_field("Releases").text() for patch in (one, other)]
        hunks = [_PLACE.sub("@@", patch.diff) for patch in (one, other)]
        return headers[0] != headers[1], hunks[0] != hunks[1]

    header_edited, diff_edited = differ(original, patch) if old else (True, True)
    diff_edited = diff_edited and not same(tree, commit, there)
    header_moved, diff_moved = differ(original, there)
    if (header_edited and header_moved) or (diff_edited and diff_moved and not same(tree, old, there)):
        raise PatchsetError(
            f"{patch.entry} changed in the tree and, since the tree was made, in {patch.file} as well",
            "take one of them back: git checkout the diff, or leave the commit as apply made it",
        )
    header, diff = (patch if header_edited else there).header, there.diff
    if diff_edited:
        _save_sources(tree, commit, there)
        diff = patch.diff
        header = header.with_field("Last-Refresh", release.name)
    return Patch(patch.entry, patch.file, header, diff)


def _save_sources(tree: Path, commit: str, before: Patch) -> None:
    """Take files of ``patches/files`` that were edited in the tree back from the commit that carries them."""
    carried = sources.sections(before.diff)
    for source in before.header.sources:
        path, place = source.removeprefix(sources.FOLDER), paths.project_root() / source
        if git.attempt(tree, "cat-file", "-e", f"{commit}:{path}")[0] != 0:
            continue
        content = git.run(tree, "cat-file", "blob", f"{commit}:{path}").decode()
        if sources.section(path, content) == carried.get(path):
            continue
        if place.is_file() and sources.section(path, place.read_text(encoding="utf-8")) != carried.get(path):
            raise PatchsetError(
                f"{path} changed in the tree, and {source} changed as well",
                f"put one of the two into the other's place; the tree has it in {tree / path}",
            )
        files.write_text(place, content)


def patch_of_commit(release: Release, tree: Path, commit: str, old: list[str], made: list[str]) -> Patch:
    """One commit as a patch of ``release``: the entry that its trailer or its subject names, else a new one.

    ``old`` are the entries that the subject is looked up in, ``made`` those that other commits took. The header
    may have faults; the caller asks.
    """
    message = git.run(tree, "log", "-1", "--format=%B", commit).decode().strip("\n")
    subject, _, body = message.partition("\n")
    trailer = _TRAILER.search(body)
    if trailer and not order.is_entry(trailer[1]):
        raise PatchsetError(
            f"{commit[:12]}: {trailer[1][:200]!r} names no diff of {release.name}",
            f"git commit --amend: '{ENTRY_TRAILER}: NAME.diff', 'core/NAME.diff', or no such line",
        )
    entry = trailer[1] if trailer else _entry_by_subject(release, subject.strip(), old, made)
    # git leaves "# Conflicts:" in the message of a conflict that was resolved without an editor
    lines = [line for line in _TRAILER.sub("", body).split("\n") if line.strip() and line[0] != "#"]
    header = parse_header("\n".join([f"Subject: {subject.strip()}", *lines]), Path(f"commit {commit[:12]}"))
    if header.get("Last-Refresh") is None:
        header = header.with_field("Last-Refresh", release.name)
    return Patch(entry, order.entry_file(release, entry), header, diff_text(tree, commit))


def _entry_by_subject(release: Release, subject: str, old: list[str], made: list[str]) -> str:
    """A commit of the user's own: the diff that an earlier refresh made of it, else a new name."""
    for entry in old:
        if entry not in made and read_patch(order.entry_file(release, entry), entry).subject == subject:
            return entry
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:60].strip("-") or "patch"
    numbers = [int(found[2]) for name in old + made if (found := re.match(r"(core/|extra/)?(\d+)-", name))]
    return f"{max(numbers, default=0) + 1:04d}-{slug}.diff"


def _merged(old: list[str], applied: list[str], made: list[str]) -> list[str]:
    """The new series: the commits' order, with patches that were not applied where they stood before."""
    merged = list(made)
    for number, entry in enumerate(old):
        if entry not in applied and entry not in made:
            before = next((other for other in reversed(old[:number]) if other in merged), None)
            merged.insert(merged.index(before) + 1 if before is not None else 0, entry)
    return merged


def _write(release: Release, made: list[Patch], entries: list[str], outcome: Outcome) -> None:
    """Write all of it: the release's folder is swapped as a whole, common diffs one by one before that."""
    written = [patch for patch in made if patch.entry in outcome.changed + outcome.added]
    own = [patch for patch in written if not patch.entry.startswith(order.SHARED)]
    gone = [entry for entry in outcome.removed if not entry.startswith(order.SHARED)]
    for patch in written:
        if patch not in own:
            files.write_text(patch.file, patch.text())
    if own or gone or entries != order.entries(release):
        with files.atomic_folder(release.folder) as temp:
            shutil.copytree(release.folder, temp, dirs_exist_ok=True)
            for patch in own:
                (temp / patch.entry).write_text(patch.text(), encoding="utf-8", newline="\n")
            for entry in gone:
                (temp / entry).unlink(missing_ok=True)
            (temp / "series").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    for entry in outcome.removed:
        if entry.startswith(order.SHARED) and not order.users(entry, releases()):
            order.entry_file(release, entry).unlink(missing_ok=True)
