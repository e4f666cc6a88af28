# SPDX-License-Identifier: Apache-2.0
"""What a rebase ends with: commits of its work repository as a release's series, written as a whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from patchset.base import files, git, paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release
from patchset.downloads import fetch
from patchset.pins import third_party
from patchset.rebase.port import Outcome, Status
from patchset.results import tables
from patchset.series import order, patched_files, refresh, replay, upstreamed
from patchset.series.apply import STOCK_REF
from patchset.series.patch import Header, Patch
from patchset.series.patch import read as read_patch
from patchset.series.refresh import patch_of_commit


def of_commits(work: Path, new: Release, old: list[Patch]) -> list[Patch]:
    """The patches of the new series: a common diff where it is the same, else one of the release's own."""
    listing = git.text(work, "rev-list", "--reverse", f"{STOCK_REF}..HEAD")
    entries = [patch.entry for patch in old]
    made: list[Patch] = []
    faults = []
    for commit in listing.split("\n") if listing else []:
        taken = [patch.entry for patch in made]
        patch = _settled(patch_of_commit(new, work, commit, entries, taken), work, commit, new, old)
        faults += [f"{commit[:12]} ({patch.subject}): {fault}" for fault in patch.header.faults()]
        if patch.entry in taken:
            faults.append(f"{commit[:12]}: a second commit for {patch.entry}; squash the two")
        made.append(patch)
    if faults:
        raise PatchsetError(
            "these commits cannot become patches:\n  " + "\n  ".join(faults),
            f"fix their messages in {work} (git rebase -i {STOCK_REF}), then run it again",
        )
    return made


def must_pass_proofs(old: Release, new: Release, outcomes: Iterable[Outcome], made: list[Patch]) -> list[str]:
    """Proofs that the new stock tree must pass: of the dropped patches, and, not going back, those of ``old``."""
    proofs = {proof for o in outcomes if o.status is Status.DROPPED for proof in o.patch.header.proofs}
    if Version(old.version) <= Version(new.version):
        proofs.update(upstreamed.proofs(old))
    return sorted(proofs.difference(proof for patch in made for proof in patch.header.proofs))


def write(new: Release, pin: Path, work: Path, made: list[Patch], proofs: Iterable[str]) -> None:
    """Replace ``patches/<release>`` in one step, then what is generated for all releases."""
    sums = patched_files.sums_of(replay.changes(work, STOCK_REF, "HEAD"))
    target = paths.patches_dir() / new.name
    with files.atomic_folder(target) as temp:
        if target.is_dir():
            shutil.copytree(target, temp, dirs_exist_ok=True)
        for gone in [*temp.glob("*.diff"), temp / upstreamed.FILE, temp / patched_files.FILE]:
            gone.unlink(missing_ok=True)
        shutil.copyfile(pin, temp / "release.toml")
        third_party.write_pin(temp, new.name, fetch.artifact(new.sdist) if new.sdist else None)
        for patch in made:
            if not patch.entry.startswith(order.COMMON):
                (temp / patch.entry).write_text(patch.text(), encoding="utf-8", newline="\n")
        (temp / "series").write_text("".join(f"{patch.entry}\n" for patch in made), encoding="utf-8")
        if text := upstreamed.text(proofs):
            (temp / upstreamed.FILE).write_text(text, encoding="utf-8")
        if sums:
            (temp / patched_files.FILE).write_text(patched_files.text(sums), encoding="utf-8")
    refresh.generate([], refresh.Outcome())
    tables.write()


def _settled(patch: Patch, work: Path, commit: str, new: Release, old: list[Patch]) -> Patch:
    """A shared diff that makes the same tree, at an offset if need be; else one of the release's own."""
    for place in sorted((paths.patches_dir() / "common").glob("*.diff")):
        shared = read_patch(place, order.COMMON + place.name)
        if shared.name == patch.name and _same_header(shared, patch) and replay.same(work, commit, shared):
            return shared
    name = f"{patch.name}.diff"
    before = next((other for other in old if other.name == patch.name), None)
    header = patch.header
    if before is None or before.diff != patch.diff:
        header = header.with_field("Last-Refresh", new.name)
    header = header.without_field("Releases")
    return Patch(name, new.folder / name, header, patch.diff)


def _same_header(one: Patch, other: Patch) -> bool:
    def written(patch: Patch) -> Header:
        return patch.header.without_field("Last-Refresh").without_field("Releases")

    return written(one) == written(other)
