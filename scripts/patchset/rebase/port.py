# SPDX-License-Identifier: Apache-2.0
"""One patch onto another source: exactly, with an offset, or by a three-way merge with the source it was made for."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from packaging.version import Version
from pydantic.dataclasses import dataclass

from patchset import git
from patchset.errors import PatchsetError
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF, commit_message
from patchset.series.check import State, fit
from patchset.series.patch import Patch, patch_name

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
    """What became of a patch, by its entry in the old series; ``conflicts`` are the files where git needs a decision."""

    entry: str
    status: Status
    note: str = ""
    conflicts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The patch's name."""
        return patch_name(self.entry)


Ported = tuple[Patch, Outcome]


def work_repository(work: Path, new_stock: Path, old_patched: Path) -> None:
    """Fill the empty folder ``work``: the new source checked out, the old source and its series at hand.

    The identity and the conflict style stand in its configuration, for the user's own git commands.
    """
    git.run(work, "clone", "--quiet", "--local", "--no-tags", str(new_stock), ".")
    git.run(work, "remote", "remove", "origin")
    git.run(work, "update-ref", STOCK_REF, "HEAD")
    # Objects are linked, not copied: the old source is read where its tree has it, and packed nowhere.
    objects = old_patched / ".git" / "objects"
    for file in (*objects.glob("pack/*"), *objects.glob("??/*")):
        target = work / ".git" / "objects" / file.relative_to(objects)
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            try:
                target.hardlink_to(file)
            except OSError:
                target.write_bytes(file.read_bytes())
    for ref, commit in ((OLD_STOCK_REF, STOCK_REF), (OLD_REF, "HEAD")):
        git.run(work, "update-ref", ref, git.text(old_patched, "rev-parse", commit))
    name, mail = git.IDENTITY
    settings = {"user.name": name, "user.email": mail, "merge.conflictStyle": "diff3", "gc.auto": "0"}
    for key, value in settings.items():
        git.run(work, "config", key, value)


def commits(work: Path, since: str, until: str) -> dict[str, str]:
    """The commits from one to another, by the entry of the series that they name."""
    form = f"--format=%H %(trailers:key={ENTRY_TRAILER},valueonly,separator=%x20)"
    found = (line.split() for line in git.text(work, "log", form, f"{since}..{until}").splitlines())
    return {entry: commit for commit, *entries in found for entry in entries}


def port_patch(work: Path, patch: Patch, version: str | None) -> Outcome:
    """Put one patch on top of ``HEAD``, as it is or by a merge of the commit that it makes on the old source.

    A patch whose header says that ``version`` has its change is dropped unseen: upstream seldom makes it line by
    line as the patch does, and a merge would keep both. That the header is right, its proof on the stock tree says.

    A conflict leaves the cherry-pick open, as git itself does; every other outcome leaves a clean tree.
    """
    if version and patch.merged_in and patch.merged_in <= Version(version):
        return Outcome(patch.entry, Status.DROPPED, f"merged in v{patch.merged_in}, its header says")
    found = fit(patch, work)
    if found.state is State.ALREADY_PRESENT:
        return Outcome(patch.entry, Status.DROPPED, "upstream has it")
    by_lines = ""
    if found.state is State.APPLIES:
        by_lines = _put(work, patch)
        if not found.offsets:
            return Outcome(patch.entry, Status.PORTED)
        git.run(work, "reset", "--quiet", "--hard", "HEAD^")
    commit = commits(work, OLD_STOCK_REF, OLD_REF).get(patch.entry)
    if commit is None:
        raise PatchsetError(
            f"{patch.name} does not fit, and the old tree has no commit of it to merge",
            "make the old tree from before the change: git stash, nox -s apply, git stash pop",
        )
    code, stderr = git.attempt(work, "cherry-pick", "--keep-redundant-commits", commit)
    if code != 0:
        if undecided := conflicts(work):
            return Outcome(patch.entry, Status.CONFLICT, conflicts=undecided)
        raise PatchsetError(f"git could not merge {patch.name}: {stderr.strip()[-500:]}")
    before, merged = git.text(work, "rev-parse", "HEAD^^{tree}", "HEAD^{tree}").split()
    if merged == before:
        git.run(work, "reset", "--quiet", "--hard", "HEAD^")
        return Outcome(patch.entry, Status.DROPPED, "nothing of it is left after the merge: upstream has it")
    return Outcome(patch.entry, Status.OFFSET if merged == by_lines else Status.MERGED)


def conflicts(work: Path) -> tuple[str, ...]:
    """The files that an open cherry-pick left undecided."""
    listing = git.text(work, "diff", "--name-only", "--diff-filter=U", "-z")
    return tuple(path for path in listing.split("\0") if path)


def port_series(
    work: Path, patches: list[Patch], version: str | None, resolved: Iterable[Patch] = ()
) -> list[Ported]:
    """Port a whole series and stop nowhere: a patch that conflicts is left out, and said.

    ``resolved`` are patches that somebody resolved before; one that fits stands in for what conflicts, so that the
    patches after it are tried on what they will meet.
    """
    ported = []
    known = {patch.name: patch for patch in resolved}
    for patch in patches:
        outcome = port_patch(work, patch, version)
        if outcome.status is Status.CONFLICT:
            git.run(work, "cherry-pick", "--skip")
            other = known.get(patch.name)
            if other and fit(other, work).state is State.APPLIES:
                _put(work, other)
                outcome = replace(outcome, note="resolved before as the series that stands there has it")
        ported.append((patch, outcome))
    return ported


def _put(work: Path, patch: Patch) -> str:
    """Commit a patch that applies, at an offset if need be: the tree that comes out."""
    git.run(work, "apply", "--index", "--whitespace=nowarn", "-", stdin=patch.diff.encode())
    message = commit_message(patch.entry, patch.header).encode()
    git.run(work, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", "-", stdin=message)
    return git.text(work, "rev-parse", "HEAD^{tree}")
