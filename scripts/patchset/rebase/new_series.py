# SPDX-License-Identifier: Apache-2.0
"""What a rebase begins and ends with: the nearest series, and the new one, written as a whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from patchset import files, paths
from patchset.release import Release, releases
from patchset.series import order, patched_files, refresh, replay, upstreamed
from patchset.series.apply import STOCK_REF
from patchset.series.patch import Header, Patch
from patchset.series.patch import read as read_patch


def nearest(name: str) -> Release | None:
    """The release whose series a new one starts from: the newest below it that has one, else the oldest above."""
    others = [release for release in releases() if release.name != name and order.entries(release)]
    below = [release for release in others if Version(release.version) < Version(name.removeprefix("v"))]
    return below[-1] if below else next(iter(others), None)


def of_commits(work: Path, new: Release, old: list[Patch]) -> list[Patch]:
    """The patches of the new series: a common diff where it is the same, else one of the release's own."""
    commits = refresh.patches_of_commits(new, work, [patch.entry for patch in old])
    return [_settled(patch, work, commit, new, old) for commit, patch in commits]


def _settled(patch: Patch, work: Path, commit: str, new: Release, old: list[Patch]) -> Patch:
    """A shared diff that makes the same tree, at an offset if need be; else one of the release's own."""

    def written(header: Header) -> Header:
        return header.without_field("Last-Refresh").without_field("Releases")

    for place in order.shared_files():
        shared = read_patch(place, place.relative_to(paths.patches_dir()).as_posix())
        same_header = shared.name == patch.name and written(shared.header) == written(patch.header)
        if same_header and replay.same(work, commit, shared):
            return shared
    header = patch.header.without_field("Releases")
    if not any((other.name, other.diff) == (patch.name, patch.diff) for other in old):
        header = header.with_field("Last-Refresh", new.name)
    name = f"{patch.name}.diff"
    return Patch(name, new.folder / name, header, patch.diff)


def write(new: Release, pin: Path, work: Path, made: list[Patch], proofs: Iterable[str]) -> None:
    """Replace ``patches/<release>`` in one step, then what is generated for all releases."""
    generated = {
        "series": "".join(f"{patch.entry}\n" for patch in made),
        upstreamed.FILE: upstreamed.text(proofs),
        patched_files.FILE: patched_files.text(
            patched_files.sums_of(replay.changes(work, STOCK_REF, "HEAD"))
        ),
        **{patch.entry: patch.text() for patch in made if not patch.entry.startswith(order.SHARED)},
    }
    with files.atomic_folder(new.folder) as temp:
        if new.folder.is_dir():
            made_anew = shutil.ignore_patterns("*.diff", *generated)
            shutil.copytree(new.folder, temp, ignore=made_anew, dirs_exist_ok=True)
        shutil.copyfile(pin, temp / "release.toml")
        for name, text in generated.items():
            if text or name == "series":
                (temp / name).write_text(text, encoding="utf-8")
    refresh.generate([], refresh.Outcome())
