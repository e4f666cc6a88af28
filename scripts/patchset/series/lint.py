# SPDX-License-Identifier: Apache-2.0
"""Checks of ``patches/`` that are cheap and need no network. ``apply`` is the one that needs the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Release, load, release_names, releases
from patchset.series import order, patched_files, sources, upstreamed
from patchset.series.native import native_reason
from patchset.series.patch import Patch, patch_name
from patchset.series.patch import read as read_patch
from patchset.series.refresh import spans

_GENERATED_LINE = re.compile(r"^(?:index [0-9a-f]+\.\.[0-9a-f]+|(?:---|\+\+\+) [^\t\n]+\t).*$", re.MULTILINE)


def lint() -> list[str]:
    """All faults of the pins, the series and the diffs, one line each; empty when all is well."""
    faults: list[str] = []
    used: dict[str, Patch] = {}
    for name in release_names():
        with _noted(faults):
            _lint_release(load(name), used, faults)
    with _noted(faults):
        load()
    with _noted(faults):
        among = releases()
        for file in order.shared_files():
            entry = file.relative_to(paths.patches_dir()).as_posix()
            if not order.users(entry, among):
                faults.append(f"{entry} is in no series")
    faults += sources.orphans(list(used.values()))
    if not faults:
        faults += [
            f"{place.parent.name}/{place.name}: its field Releases is not the releases that use it; nox -s refresh writes it"
            for place, text in spans().items()
            if place.read_text(encoding="utf-8") != text
        ]
    # An unreadable pin or series is found at every place that reads it; each message is shown once.
    return list(dict.fromkeys(faults))


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """Add an error to the faults instead of raising it."""
    try:
        yield
    except PatchsetError as error:
        faults.append(error.message)


def _lint_release(release: Release, used: dict[str, Patch], faults: list[str]) -> None:
    root, entries = paths.project_root(), order.entries(release)
    names = [patch_name(entry) for entry in entries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"{release.name}: the series has two diffs of {name}")
    unused = {file.name for file in release.folder.glob("*.diff")} - set(entries)
    faults += [f"{release.name}: {name} is in no series" for name in sorted(unused)]
    with _noted(faults):
        if entries and patched_files.read(release) is None:
            faults.append(
                f"{release.name}: {patched_files.FILE} does not exist; nox -s refresh -- {release.name} writes it"
            )
    diffs = {str(order.entry_file(release, entry).relative_to(root)): entry for entry in entries}
    for place, entry in diffs.items():
        if not (root / place).is_file():
            faults.append(f"{release.name}: the series names {entry}, which does not exist")
        elif place not in used:
            with _noted(faults):
                used[place] = read_patch(root / place, entry)
                faults += [f"{place}: {fault}" for fault in _patch_faults(used[place])]
    # The proofs that the stock tree must pass exist, and are no patch's of the same series.
    taken = upstreamed.file(release).relative_to(root)
    for proof in upstreamed.proofs(release):
        if not (root / proof).is_file():
            faults.append(f"{taken}: {proof} does not exist")
        for patch in (used[place] for place in diffs if place in used):
            if proof in patch.header.proofs:
                faults.append(f"{taken}: {proof} is the proof of {patch.name}, which the series has")


def _patch_faults(patch: Patch) -> Iterator[str]:
    yield from patch.header.faults()
    for proof in patch.header.proofs:
        if not (paths.project_root() / proof).is_file():
            yield f"its proof {proof} does not exist"
    yield from sources.faults(patch)
    native = {path: reason for path in patch.paths if (reason := native_reason(path))}
    if patch.native and not native:
        yield "says 'Native: yes' and touches nothing native"
    elif not patch.native:
        for path, reason in native.items():
            yield f"touches {path} ({reason}); such a patch says 'Native: yes' in its header"
    for line in _GENERATED_LINE.findall(patch.diff):
        yield f"{line[:60]!r}: index lines and time stamps are left out; nox -s refresh writes it right"
    for number, path in enumerate(patch.paths):
        if path in patch.paths[:number]:
            yield f"changes {path} in two places of the diff"
