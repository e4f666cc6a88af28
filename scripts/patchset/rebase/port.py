# SPDX-License-Identifier: Apache-2.0
"""One patch onto another source: exactly, with an offset, or by a three-way merge with the source it was made for."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from patchset.base import git
from patchset.base.errors import PatchsetError
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF, commit_message
from patchset.series.check import State, fit
from patchset.series.patch import Patch

#: In the work repository: the stock commit and the last commit of the series that is ported.
OLD_STOCK_REF = "refs/patchset/old-stock"
OLD_REF = "refs/patchset/old"


class Status(enum.StrEnum):
    """What became of a patch."""

    PORTED = "ported"
    OFFSET = "offset"
    MERGED = "merged by three-way"
    RESOLVED = "resolved by hand"
    DROPPED = "dropped"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class Outcome:
    """What became of one patch; ``conflicts`` are the files where git needs a decision."""

    patch: Patch
    status: Status
    note: str = ""
    conflicts: tuple[str, ...] = ()


def work_repository(work: Path, new_stock: Path, old_patched: Path) -> None:
    """Fill the empty folder ``work``: the new source checked out, the old source and its series at hand.

    The identity and the conflict style stand in its configuration, for the user's own git commands.
    """
    git.run(work, "clone", "--quiet", "--local", "--no-tags", str(new_stock), ".")
    git.run(work, "remote", "remove", "origin")
    git.run(work, "update-ref", STOCK_REF, "HEAD")
    # Objects are linked, not copied: the old source is read where its tree has it, and packed nowhere.
    for kind in ("pack", "??"):
        for folder in (old_patched / ".git" / "objects").glob(kind):
            _link(folder, work / ".git" / "objects" / folder.name)
    for ref, commit in ((OLD_STOCK_REF, STOCK_REF), (OLD_REF, "HEAD")):
        git.run(work, "update-ref", ref, git.text(old_patched, "rev-parse", commit))
    name, mail = git.IDENTITY
    settings = {"user.name": name, "user.email": mail, "merge.conflictStyle": "diff3", "gc.auto": "0"}
    for key, value in settings.items():
        git.run(work, "config", key, value)


def old_commits(work: Path) -> dict[str, str]:
    """The commits of the series that is ported, by entry."""
    form = f"--format=%H %(trailers:key={ENTRY_TRAILER},valueonly,separator=%x20)"
    listing = git.text(work, "log", form, f"{OLD_STOCK_REF}..{OLD_REF}").splitlines()
    return {entry: commit for commit, _, entry in (line.partition(" ") for line in listing)}


def port_patch(
    work: Path, patch: Patch, commit: str | None, epoch: int, version: str | None = None
) -> Outcome:
    """Put one patch on top of ``HEAD``; ``commit`` is the one that it makes on the old source, if it is known.

    A patch whose header says that ``version`` has its change is dropped unseen: upstream seldom makes it line by
    line as the patch does, and a merge would keep both. That the header is right, its proof on the stock tree says.

    A conflict leaves the cherry-pick open, as git itself does; every other outcome leaves a clean tree.
    """
    if version and patch.merged_in and patch.merged_in <= Version(version):
        return Outcome(patch, Status.DROPPED, f"merged in v{patch.merged_in}, its header says")
    found = fit(patch, work)
    if found.state is State.ALREADY_PRESENT:
        return Outcome(patch, Status.DROPPED, "upstream has it")
    by_lines = _applied(work, patch)
    if found.state is State.APPLIES and not found.offsets and by_lines is not None:
        _commit(work, patch, epoch)
        return Outcome(patch, Status.PORTED)
    git.run(work, "reset", "--quiet", "--hard", "HEAD")
    if commit is None:
        raise PatchsetError(
            f"{patch.name} does not fit, and the old tree has no commit of it to merge",
            "make the old tree from before the change: git stash, nox -s apply, git stash pop",
        )
    code, stderr = git.attempt(work, "cherry-pick", commit)
    if code != 0:
        return _unfinished(work, patch, stderr)
    if git.text(work, "rev-parse", "HEAD^{tree}") == by_lines:
        return Outcome(patch, Status.OFFSET)
    return Outcome(patch, Status.MERGED)


def conflicts(work: Path) -> tuple[str, ...]:
    """The files that an open cherry-pick left undecided."""
    listing = git.text(work, "diff", "--name-only", "--diff-filter=U", "-z")
    return tuple(path for path in listing.split("\0") if path)


def picking(work: Path) -> bool:
    """Whether a cherry-pick is open."""
    return git.attempt(work, "rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD")[0] == 0


def skip(work: Path) -> None:
    """End an open cherry-pick without its patch."""
    git.run(work, "cherry-pick", "--skip")


def port_series(
    work: Path,
    patches: Sequence[Patch],
    epoch: int,
    version: str | None = None,
    known: Mapping[str, Patch] | None = None,
) -> list[Outcome]:
    """Port a whole series and stop nowhere: a patch that conflicts is left out, and said.

    ``known`` has patches by name that somebody resolved before; one that fits stands in for what conflicts, so
    that the patches after it are tried on what they will meet.
    """
    outcomes = []
    commits = old_commits(work)
    for patch in patches:
        outcome = port_patch(work, patch, commits.get(patch.entry), epoch, version)
        if outcome.status is Status.CONFLICT:
            skip(work)
            if (other := (known or {}).get(patch.name)) and _applied(work, other) is not None:
                _commit(work, other, epoch)
                outcome = replace(outcome, note="resolved before as the series that stands there has it")
        outcomes.append(outcome)
    return outcomes


def size_note(outcome: Outcome, made: Patch) -> Outcome:
    """Say when a merge left less (or more) of a patch than it had: upstream may have taken a part."""
    before, after = (
        tuple((sum(f.added for f in patch.files), sum(f.removed for f in patch.files)))
        for patch in (outcome.patch, made)
    )
    if before == after or outcome.status is Status.PORTED:
        return outcome
    note = f"+{after[0]} −{after[1]} lines, was +{before[0]} −{before[1]}: look at what is left of it"
    return replace(outcome, note=f"{outcome.note}; {note}" if outcome.note else note)


def _applied(work: Path, patch: Patch) -> str | None:
    """Apply to index and files, at an offset if need be: the tree that comes out, or None."""
    code, _ = git.attempt(work, "apply", "--index", "--whitespace=nowarn", "-", stdin=patch.diff.encode())
    return git.text(work, "write-tree") if code == 0 else None


def _commit(work: Path, patch: Patch, epoch: int) -> None:
    git.run(
        work, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", "-",
        stdin=commit_message(patch.entry, patch.header).encode(), epoch=epoch,
    )  # fmt: skip


def _unfinished(work: Path, patch: Patch, stderr: str) -> Outcome:
    undecided = conflicts(work)
    if undecided:
        return Outcome(patch, Status.CONFLICT, conflicts=undecided)
    if not picking(work):
        raise PatchsetError(f"git could not merge {patch.name}: {stderr.strip()[-500:]}")
    if git.text(work, "write-tree") != git.text(work, "rev-parse", "HEAD^{tree}"):
        raise PatchsetError(f"git could not commit {patch.name}: {stderr.strip()[-500:]}")
    skip(work)
    return Outcome(patch, Status.DROPPED, "nothing of it is left after the merge: upstream has it")


def _link(folder: Path, place: Path) -> None:
    place.mkdir(exist_ok=True)
    for file in folder.iterdir():
        target = place / file.name
        if not target.exists():
            try:
                target.hardlink_to(file)
            except OSError:
                target.write_bytes(file.read_bytes())
