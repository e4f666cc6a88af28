# SPDX-License-Identifier: Apache-2.0
"""The fewest diffs of one patch that make, of every release that has it, exactly what its own diffs make now."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchset import files, paths
from patchset.errors import PatchsetError, UsageError
from patchset.release import Release, releases
from patchset.series import order, patched_files, refresh
from patchset.series.patch import Patch, patch_name
from patchset.series.replay import diff_text, makes, replayed

#: One diff and the releases, oldest first, that take it.
Group = tuple[Patch, list[Release]]


def plan(name: str, *, context: int = 3) -> list[Group]:
    """The fewest diffs of a patch, newest releases first. ``context`` below 3 also tries diffs with fewer lines around
    their hunks.

    Raises:
        UsageError: no release has the patch.
        ConflictError: a series does not apply.
    """
    users = [release for release in releases() if name in map(patch_name, order.entries(release))]
    if not users:
        raise UsageError(
            f"no release has a patch called {name}",
            "a patch is called as its diff, without .diff and release",
        )
    with contextlib.ExitStack() as stack:
        steps = []
        for release in users:
            index, replay = stack.enter_context(replayed(release))
            steps.append((index, next(step for step in replay if step.patch.name == name)))
        # Of equal diffs the newest release's header is kept.
        candidates: dict[str, Patch] = {}
        for index, step in reversed(steps):
            shorter = (diff_text(index, step.before, step.after, lines=lines) for lines in range(context, 3))
            for diff in (step.patch.diff, *shorter):
                candidates.setdefault(diff, replace(step.patch, diff=diff))
        # Of diffs that fit the same releases the first is kept.
        by_fits: dict[frozenset[int], Patch] = {}
        for patch in candidates.values():
            where = [n for n, (index, it) in enumerate(steps) if makes(index, it.before, it.after, patch)]
            by_fits.setdefault(frozenset(where), patch)
    groups, taken = list[Group](), set[int]()
    for fits in _cover([*by_fits], len(steps)):
        groups.append((by_fits[fits], [users[number] for number in sorted(fits - taken)]))
        taken |= fits
    return groups


def _cover(sets: Sequence[frozenset[int]], count: int) -> list[frozenset[int]]:
    """The fewest sets that together hold all numbers, those with the highest first."""
    sets = [one for one in sets if not any(one < other for other in sets)]
    for number in range(1, len(sets) + 1):
        for chosen in itertools.combinations(sets, number):
            if len(frozenset().union(*chosen)) == count:
                return sorted(chosen, key=max, reverse=True)
    raise PatchsetError("a diff does not make again what it makes: nox -s refresh -- --all")


def write(name: str, groups: Sequence[Group]) -> None:
    """Put a plan into the series: shared diffs into ``core/`` or ``extra/``, the others into their release's folder."""
    several = sum(len(users) > 1 for _, users in groups) > 1
    wanted: dict[Path, str | None] = {}
    folder = next(
        (folder for folder in order.SHARED for patch, _ in groups if patch.entry.startswith(folder)), "extra/"
    )
    for patch, users in groups:
        shared = len(users) > 1
        suffix = f"-{users[0].name}" if shared and several else ""
        entry = f"{folder}{name}{suffix}.diff" if shared else f"{name}.diff"
        header = patch.header if shared else patch.header.without_field("Releases")
        for release in users:
            lines = order.entries(release)
            old = next(line for line in lines if patch_name(line) == name)
            wanted.setdefault(order.entry_file(release, old), None)
            lines[lines.index(old)] = entry
            wanted[order.series_file(release)] = "".join(f"{line}\n" for line in lines)
            wanted[order.entry_file(release, entry)] = replace(patch, header=header).text()
    before = {place: place.read_bytes().decode() if place.is_file() else None for place in wanted}
    try:
        _put(wanted)
        for _, users in groups:
            for release in users:
                patched_files.check(release, patched_files.compute(release))
    except BaseException:
        _put(before)
        raise
    refresh.generate([], refresh.Outcome())


def _put(contents: Mapping[Path, str | None]) -> None:
    for place, text in contents.items():
        if text is None:
            place.unlink(missing_ok=True)
        else:
            files.write_text(place, text)


def to_share() -> list[str]:
    """Names of patches of which several releases have a diff of their own."""
    own = Counter(patch_name(place.name) for place in paths.patches_dir().glob("v*/*.diff"))
    return sorted(name for name, number in own.items() if number > 1)
