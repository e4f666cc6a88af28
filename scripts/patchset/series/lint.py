# SPDX-License-Identifier: Apache-2.0
"""Checks of ``patches/`` that are cheap and need no source tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Release, load, release_names, releases
from patchset.series import patched_files
from patchset.series.mail import Patch, parse, patch_name
from patchset.series.read import (
    FILES,
    content_of,
    entries,
    entry_file,
    shared_diffs,
    taken_proofs,
)


def lint() -> list[str]:
    """All faults of the pins, the series and the diffs, one line each."""
    faults: list[str] = []
    used: dict[str, Patch | None] = {}
    for name in release_names():
        with _noted(faults):
            _lint_release(load(name), used, faults)
    with _noted(faults):
        load()
        releases()
    root = paths.patches_dir()
    modules = (file.relative_to(root).as_posix() for file in root.glob("files/**/*.py"))
    shared = [*shared_diffs(), *modules]
    faults += [f"{entry} is in no series" for entry in shared if entry not in used]
    # An unreadable pin or series is met by everything that reads it.
    return list(dict.fromkeys(faults))


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """Add an error to the faults instead of raising it."""
    try:
        yield
    except PatchsetError as error:
        faults.append(error.message)


def _lint_release(
    release: Release, used: dict[str, Patch | None], faults: list[str]
) -> None:
    listed = entries(release)
    diffs = [entry for entry in listed if not entry.startswith(FILES)]
    names = [patch_name(entry) for entry in diffs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"{release.name}: the series has two diffs of {name}")
    unused = {file.name for file in release.folder.glob("*.diff")} - set(listed)
    faults += [f"{release.name}: {name} is in no series" for name in sorted(unused)]
    with _noted(faults):
        if listed and patched_files.read(release) is None:
            faults.append(
                f"{release.name}: {patched_files.FILE} does not exist; "
                f"nox -s refresh -- {release.name} writes it"
            )
    proofs = set()
    for entry in listed:
        file = entry_file(release, entry)
        place = file.relative_to(paths.patches_dir()).as_posix()
        if place not in used:
            used[place] = None
            with _noted(faults):
                content = content_of(file)
                if not entry.startswith(FILES):
                    used[place] = patch = parse(content, file, entry)
                    faults += [f"{place}: {what}" for what in _faults(patch, content)]
        if (patch_there := used[place]) is not None:
            proofs |= set(patch_there.proofs)
    for proof in taken_proofs(release):
        if not (paths.project_root() / proof).is_file():
            faults.append(f"{release.name}: {proof} of stock-must-pass does not exist")
        if proof in proofs:
            faults.append(
                f"{release.name}: {proof} is a patch's, and in stock-must-pass"
            )


def _faults(patch: Patch, content: bytes) -> Iterator[str]:
    yield from patch.faults()
    for proof in patch.proofs:
        if not (paths.project_root() / proof).is_file():
            yield f"its proof {proof} does not exist"
    if patch.text().encode() != content:
        yield "has more than From, Subject, message and diff, such as index lines"
