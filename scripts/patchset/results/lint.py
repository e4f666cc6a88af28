# SPDX-License-Identifier: Apache-2.0
"""Checks of ``patches/`` that are cheap and need no network. ``apply`` is the one that needs the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchset.base import paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release, load, release_names, releases
from patchset.results import tables
from patchset.series import order, patched_files, sources, upstreamed
from patchset.series.native import native_reason
from patchset.series.patch import Patch, patch_name
from patchset.series.patch import read as read_patch
from patchset.series.refresh import spans


def lint() -> list[str]:
    """All faults of the pins, the series and the diffs, one line each; empty when all is well."""
    faults = []
    found: list[Release] = []
    for name in release_names():
        try:
            found.append(load(name))
        except PatchsetError as error:
            faults.append(error.message)
    if not faults:
        try:
            load()
        except PatchsetError as error:
            faults.append(error.message)
    used: dict[str, Patch] = {}
    for release in found:
        faults += _lint_release(release, used)
        faults += _lint_must_pass(release)
    faults += _orphans(found)
    root = paths.project_root()
    for place, patch in used.items():
        faults += [
            f"{place}: its proof {proof} does not exist"
            for proof in patch.header.proofs
            if not (root / proof).is_file()
        ]
    faults += sources.orphans(list(used.values()))
    if not faults:
        faults += [
            f"common/{place.name}: its field Releases is not the releases that use it; nox -s refresh writes it"
            for place, text in spans().items()
            if place.read_text(encoding="utf-8") != text
        ]
    if not faults:
        faults += [f"{name}: its tables are out of date; run nox -s tables" for name in tables.stale()]
    return faults


def _lint_release(release: Release, used: dict[str, Patch]) -> Iterator[str]:
    try:
        entries = order.entries(release)
    except PatchsetError as error:
        yield error.message
        return
    names = [patch_name(entry) for entry in entries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{release.name}: the series has two diffs of {name}"
    try:
        if entries and patched_files.read(release) is None:
            yield f"{release.name}: {patched_files.FILE} does not exist; nox -s refresh -- {release.name} writes it"
    except PatchsetError as error:
        yield error.message
    for entry in entries:
        file = order.entry_file(release, entry)
        place = str(file.relative_to(paths.project_root()))
        if not file.is_file():
            yield f"{release.name}: the series names {entry}, which does not exist"
            continue
        if place in used:
            continue
        try:
            used[place] = read_patch(file, entry)
        except PatchsetError as error:
            yield error.message
            continue
        yield from (f"{place}: {fault}" for fault in _lint_patch(used[place]))


def _lint_must_pass(release: Release) -> Iterator[str]:
    """The proofs that the stock tree must pass exist, and are no patch's of the same series."""
    try:
        proofs = upstreamed.proofs(release)
        patches = order.read(release) if proofs else []
    except PatchsetError as error:
        yield error.message
        return
    place = upstreamed.file(release).relative_to(paths.project_root())
    for proof in proofs:
        if not (paths.project_root() / proof).is_file():
            yield f"{place}: {proof} does not exist"
        yield from (
            f"{place}: {proof} is the proof of {patch.name}, which the series has"
            for patch in patches
            if proof in patch.header.proofs
        )


def _lint_patch(patch: Patch) -> Iterator[str]:
    yield from patch.header.faults()
    yield from sources.faults(patch)
    if not patch.native:
        for path in patch.paths:
            if reason := native_reason(path):
                yield f"touches {path} ({reason}); such a patch says 'Native: yes' in its header"
    elif not any(native_reason(path) for path in patch.paths):
        yield "says 'Native: yes' and touches nothing native"
    for line in re.findall(
        r"^(?:index [0-9a-f]+\.\.[0-9a-f]+|(?:---|\+\+\+) [^\t\n]+\t).*$", patch.diff, re.MULTILINE
    ):
        yield f"{line[:60]!r}: index lines and time stamps are left out; nox -s refresh writes it right"
    seen = set()
    for path in patch.paths:
        if path in seen:
            yield f"changes {path} in two places of the diff"
        seen.add(path)


def _orphans(found: list[Release]) -> Iterator[str]:
    for release in found:
        own = {path.name for path in release.folder.glob("*.diff")}
        try:
            entries = order.entries(release)
        except PatchsetError:
            continue
        yield from (f"{release.name}: {name} is in no series" for name in sorted(own.difference(entries)))
    common = paths.patches_dir() / "common"
    for file in sorted(common.glob("*.diff")):
        try:
            if not order.users(order.COMMON + file.name, releases()):
                yield f"common/{file.name} is in no series"
        except PatchsetError:
            return
