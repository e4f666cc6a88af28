# SPDX-License-Identifier: Apache-2.0
"""The way back: the commits of a patched tree become diffs, and what the tool generates in ``patches/`` is written anew."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from patchset.base import files, git, paths
from patchset.base.errors import ConflictError, PatchsetError
from patchset.base.release import Release, releases
from patchset.series import order, patched_files, sources
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF
from patchset.series.patch import Header, Patch, PatchFormatError, parse, parse_header
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


def refresh(release: Release, *, everything: bool = False) -> Outcome:
    """Save the commits of the release's patched tree as diffs, if somebody made any; then ``generate``.

    Patches of the series that the tree was made without (``--upto``, ``--without``, a conflict) stay as they
    are, at their place. Nothing is written when a commit cannot be made a patch. ``everything`` generates for
    all releases, otherwise for this one and those that share a diff which changed.
    """
    before = {file: file.read_bytes() for file in paths.patches_dir().glob("common/*.diff")}
    outcome = save(release)
    fill_sources(outcome)
    touched = {
        file for file in paths.patches_dir().glob("common/*.diff") if before.get(file) != file.read_bytes()
    }
    chosen = [
        other
        for other in releases()
        if everything
        or other.name == release.name
        or any(order.entry_file(other, entry) in touched for entry in order.entries(other))
    ]
    generate(chosen, outcome)
    return outcome


def save(release: Release) -> Outcome:
    """Write the commits of the patched tree as the release's diffs and series; nothing for a tree without edits."""
    tree = paths.trees_dir(release.name) / "patched"
    with files.lock(tree):
        stamp = read_stamp(tree)
        if stamp is None:
            return Outcome(unchanged=order.entries(release))
        if git.text(tree, "status", "--porcelain"):
            raise PatchsetError(
                f"{tree} has changes that are not committed",
                "commit them (git commit --amend, or a commit of their own)",
            )
        files.remove_temp(paths.patches_dir(), release.name)
        files.remove_scratch(paths.build_dir())
        old = order.entries(release)
        if git.text(tree, "rev-parse", "HEAD") == stamp["head"]:
            return Outcome(unchanged=old)
        applied = _stamped(stamp)
        made = _settled(release, tree, stamp, _patches_of_commits(release, tree, old))
        outcome = _compare(release, made, list(applied))
        merged = _merge_order(old, list(applied), [patch.entry for patch in made])
        _write(release, made, merged, outcome)
        stamp["patches"] = [
            [patch.entry, git.blob_id(_file(release, patch.entry).read_bytes())] for patch in made
        ]
        stamp["head"] = git.text(tree, "rev-parse", "HEAD")
        write_stamp(tree, stamp)
    return outcome


def fill_sources(outcome: Outcome) -> None:
    """Bring the files of ``patches/src`` into the diffs that carry them."""
    for place in sorted(paths.patches_dir().glob("*/*.diff")):
        if sources.fill(place):
            _note_generated(outcome, place)


def generate(found: Iterable[Release], outcome: Outcome) -> None:
    """Write the spans of shared diffs, what each series makes (``patched-files.sha256``)."""
    for place, text in spans().items():
        if place.read_text(encoding="utf-8") != text:
            files.write_text(place, text)
            _note_generated(outcome, place)
    for release in found:
        try:
            if patched_files.write(release, patched_files.compute(release)):
                _note_generated(outcome, patched_files.file(release))
        except ConflictError as error:
            outcome.broken[release.name] = error


def spans() -> dict[Path, str]:
    """Each diff in ``common/`` as it must stand: with the releases that use it in its header."""
    among = releases()
    users: dict[str, list[Release]] = {}
    for release in among:
        for entry in order.entries(release):
            users.setdefault(entry, []).append(release)
    found = {}
    for place in sorted(paths.patches_dir().glob("common/*.diff")):
        entry = order.COMMON + place.name
        patch = read_patch(place, entry)
        if entry in users:
            header = patch.header.with_field("Releases", order.spans(users[entry], among))
            found[place] = Patch(entry, place, header, patch.diff).text()
    return found


def _note_generated(outcome: Outcome, place: Path) -> None:
    name = place.relative_to(paths.patches_dir()).as_posix()
    if name not in outcome.generated:
        outcome.generated.append(name)


def _stamped(stamp: dict[str, object]) -> dict[str, str]:
    """The entries that a tree was made of, each with the git name of its diff's content."""
    patches = stamp.get("patches")
    return {str(entry): str(blob) for entry, blob in patches} if isinstance(patches, list) else {}


def _settled(
    release: Release, tree: Path, stamp: dict[str, object], made: list[tuple[str, Patch]]
) -> list[Patch]:
    """Keep of each diff what its commit leaves as it was: the header, and the hunks where they make the same tree.

    So a shared diff stays shared when only its place moved, and a file of ``patches/src`` that was edited since
    ``apply`` is not overwritten by the tree's older one.
    """
    originals = _originals(release, tree, stamp)
    settled = []
    for commit, patch in made:
        if not patch.file.is_file():
            settled.append(patch)
            continue
        there = read_patch(patch.file, patch.entry)
        old, original = originals.get(patch.entry, ("", there))
        same_header = old != "" and _written(original.header) == _written(patch.header)
        same_diff = (old != "" and _hunks(original.diff) == _hunks(patch.diff)) or same(tree, commit, there)
        if (not same_header and _written(original.header) != _written(there.header)) or (
            not same_diff and _hunks(original.diff) != _hunks(there.diff) and not same(tree, old, there)
        ):
            raise PatchsetError(
                f"{patch.entry} changed in the tree and, since the tree was made, in {patch.file} as well",
                "take one of them back: git checkout the diff, or leave the commit as apply made it",
            )
        if not same_diff:
            _save_sources(tree, commit, there)
        header = there.header if same_header else patch.header
        settled.append(Patch(patch.entry, patch.file, header, there.diff if same_diff else patch.diff))
    return settled


def _originals(release: Release, tree: Path, stamp: dict[str, object]) -> dict[str, tuple[str, Patch]]:
    """The commits that ``apply`` made, with their patches, by entry; none where git has forgotten them."""
    head = str(stamp.get("head"))
    if git.attempt(tree, "merge-base", "--is-ancestor", STOCK_REF, head)[0] != 0:
        return {}
    commits = git.text(tree, "rev-list", "--reverse", f"{STOCK_REF}..{head}").split()
    patches = [patch_of_commit(release, tree, commit, list(_stamped(stamp)), []) for commit in commits]
    return {patch.entry: (commit, patch) for commit, patch in zip(commits, patches, strict=True)}


def _written(header: Header) -> Header:
    """A header without the field that is generated."""
    return header.without_field("Releases")


def _hunks(diff: str) -> str:
    """A diff without the places of its hunks."""
    return _PLACE.sub("@@", diff)


def _save_sources(tree: Path, commit: str, before: Patch) -> None:
    """Take files of ``patches/src`` that were edited in the tree back from the commit that carries them."""
    carried = dict(sources.sections(before.diff))
    for source in before.header.sources:
        path = sources.tree_path(source)
        if git.attempt(tree, "cat-file", "-e", f"{commit}:{path}")[0] != 0:
            continue
        content = git.run(tree, "cat-file", "blob", f"{commit}:{path}").decode()
        made = sources.section(path, content)
        place = paths.project_root() / source
        if made == carried.get(path):
            continue
        if place.is_file() and sources.section(path, place.read_text(encoding="utf-8")) != carried.get(path):
            raise PatchsetError(
                f"{path} changed in the tree, and {source} changed as well",
                f"put one of the two into the other's place; the tree has it in {tree / path}",
            )
        files.write_text(place, content)


def _file(release: Release, entry: str) -> Path:
    return order.entry_file(release, entry)


def _patches_of_commits(release: Release, tree: Path, old: list[str]) -> list[tuple[str, Patch]]:
    """The commits on top of the stock tree, each with the patch that it is."""
    if git.attempt(tree, "merge-base", "--is-ancestor", STOCK_REF, "HEAD")[0] != 0:
        raise PatchsetError(
            f"{tree}: HEAD does not descend from the stock commit", "rebase onto it: " + STOCK_REF
        )
    listing = git.text(tree, "rev-list", "--reverse", "--parents", f"{STOCK_REF}..HEAD")
    made: list[tuple[str, Patch]] = []
    faults: list[str] = []
    for line in listing.split("\n") if listing else []:
        commit, *parents = line.split(" ")
        if len(parents) != 1:
            raise PatchsetError(f"{tree}: {commit[:12]} is a merge", "a series is a line: rebase it away")
        taken = [patch.entry for _, patch in made]
        patch = patch_of_commit(release, tree, commit, old, taken)
        faults += [f"{commit[:12]} ({patch.subject}): {fault}" for fault in patch.header.faults()]
        if why := _unstorable(tree, commit, patch):
            faults.append(f"{commit[:12]} ({patch.subject}): {why}")
        if patch.entry in taken:
            faults.append(f"{commit[:12]}: a second commit for {patch.entry}; squash the two (git rebase -i)")
        made.append((commit, patch))
    if faults:
        raise PatchsetError(
            "these commits cannot become patches:\n  " + "\n  ".join(faults),
            "git commit --amend: the subject line, an empty line, then the fields of the header, one a line "
            "(Reason, Origin, Upstream-Status, Drop-When, Proof, Last-Refresh); a diff holds plain text files alone",
        )
    return made


def _unstorable(tree: Path, commit: str, patch: Patch) -> str | None:
    """Why the diff of a commit cannot stand for it (binary files, links, modes, empty files, submodules …), or None."""
    try:
        parse(patch.text().encode(), patch.file, patch.entry)
        with files.scratch(paths.build_dir()) as folder:
            index = folder / "index"
            git.run(tree, "read-tree", f"{commit}^", index=index)
            git.run(
                tree, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.diff.encode(), index=index
            )
            made = git.run(tree, "write-tree", index=index).decode().strip()
    except PatchFormatError as error:
        return error.message.removeprefix(f"{patch.file}: ")
    except git.GitError as error:
        return f"its diff does not apply again: {error.stderr.strip()[:300]}"
    return (
        None
        if made == git.text(tree, "rev-parse", f"{commit}^{{tree}}")
        else "its diff does not hold all of it"
    )


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
            f"git commit --amend: '{ENTRY_TRAILER}: NAME.diff', '../common/NAME.diff', or no such line",
        )
    entry = trailer[1] if trailer else _entry_by_subject(release, subject, old, made)
    # git leaves "# Conflicts:" in the message of a conflict that was resolved without an editor
    lines = [line for line in _TRAILER.sub("", body).split("\n") if line.strip() and line[0] != "#"]
    header = parse_header("\n".join([f"Subject: {subject.strip()}", *lines]), Path(f"commit {commit[:12]}"))
    if header.get("Last-Refresh") is None:
        header = Header((*header.fields, ("Last-Refresh", release.name)))
    return Patch(entry, _file(release, entry), header, diff_text(tree, commit))


def _entry_by_subject(release: Release, subject: str, old: list[str], made: list[str]) -> str:
    """A commit of the user's own: the diff that an earlier refresh made of it, else a new name."""
    for entry in old:
        if entry not in made and read_patch(_file(release, entry), entry).subject == subject.strip():
            return entry
    return _new_entry(subject, old + made)


def _new_entry(subject: str, taken: list[str]) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:60].strip("-") or "patch"
    numbers = [int(found[0]) for name in taken if (found := re.findall(r"^(?:\.\./common/)?(\d+)-", name))]
    return f"{max(numbers, default=0) + 1:04d}-{slug}.diff"


def _compare(release: Release, made: list[Patch], applied: list[str]) -> Outcome:
    outcome = Outcome()
    for number, patch in enumerate(made):
        if not patch.file.is_file():
            outcome.added.append(patch.entry)
            continue
        before = read_patch(patch.file, patch.entry)
        if before.diff != patch.diff:
            patch = Patch(
                patch.entry, patch.file, patch.header.with_field("Last-Refresh", release.name), patch.diff
            )
            made[number] = patch
        if before.text() == patch.text():
            outcome.unchanged.append(patch.entry)
            continue
        outcome.changed.append(patch.entry)
    kept = {patch.entry for patch in made}
    outcome.removed = [entry for entry in applied if entry not in kept]
    return outcome


def _merge_order(old: list[str], applied: list[str], made: list[str]) -> list[str]:
    """The new series: the commits' order, with patches that were not applied where they stood before."""
    merged = list(made)
    for number, entry in enumerate(old):
        if entry in applied or entry in made:
            continue
        before = next((other for other in reversed(old[:number]) if other in merged), None)
        merged.insert(merged.index(before) + 1 if before is not None else 0, entry)
    return merged


def _write(release: Release, made: list[Patch], entries: list[str], outcome: Outcome) -> None:
    """Write all of it: the release's folder is swapped as a whole, common diffs one by one before that."""
    by_entry = {patch.entry: patch for patch in made}
    for entry in outcome.changed + outcome.added:
        if entry.startswith(order.COMMON):
            files.write_text(by_entry[entry].file, by_entry[entry].text())
    own = {
        entry: by_entry[entry]
        for entry in outcome.changed + outcome.added
        if not entry.startswith(order.COMMON)
    }
    gone = [entry for entry in outcome.removed if not entry.startswith(order.COMMON)]
    if own or gone or entries != order.entries(release):
        with files.atomic_folder(release.folder) as temp:
            shutil.copytree(release.folder, temp, dirs_exist_ok=True)
            for entry, patch in own.items():
                (temp / entry).write_text(patch.text(), encoding="utf-8", newline="\n")
            for entry in gone:
                (temp / entry).unlink(missing_ok=True)
            (temp / "series").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    for entry in outcome.removed:
        if entry.startswith(order.COMMON) and not order.users(entry, releases()):
            _file(release, entry).unlink(missing_ok=True)
