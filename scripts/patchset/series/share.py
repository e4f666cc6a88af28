# SPDX-License-Identifier: Apache-2.0
"""The fewest diffs of one patch that make, of every release that has it, exactly what its own diffs make now."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.base import files, git, paths
from patchset.base.errors import ConflictError, PatchsetError, UsageError
from patchset.base.release import Release, releases
from patchset.series import order, patched_files, refresh
from patchset.series.check import State
from patchset.series.patch import Patch, patch_name
from patchset.series.replay import Index, Replayed, diff_text, index_over, makes
from patchset.series.stock_tree import stock_tree


@dataclass(frozen=True)
class Group:
    """One diff and the releases, oldest first, that take it."""

    patch: Patch
    users: tuple[Release, ...]


@dataclass(frozen=True)
class _Step:
    release: Release
    index: Index
    replayed: Replayed


def plan(name: str, *, context: int = 3) -> list[Group]:
    """The fewest diffs of a patch, newest releases first. ``context`` below 3 also tries diffs with fewer lines around
    their hunks.

    Raises:
        UsageError: no release has the patch.
        ConflictError: a series does not apply.
    """
    with contextlib.ExitStack() as stack:
        steps = list(_steps(name, stack))
        if not steps:
            raise UsageError(
                f"no release has a patch called {name}",
                "a patch is called as its diff, without .diff and release",
            )
        candidates: dict[str, tuple[Patch, frozenset[int]]] = {}
        # Of equal diffs the newest release's header is kept.
        for step in reversed(steps):
            for patch in _candidates(step, context):
                if patch.diff not in candidates:
                    where = (
                        number
                        for number, other in enumerate(steps)
                        if makes(other.index, other.replayed.before, other.replayed.after, patch)
                    )
                    candidates[patch.diff] = patch, frozenset(where)
    chosen = _cover(list(candidates.values()), len(steps))
    groups, taken = [], set[int]()
    for patch, fits in chosen:
        mine = sorted(fits - taken)
        taken.update(mine)
        groups.append(Group(patch, tuple(steps[number].release for number in mine)))
    return groups


def write(name: str, groups: Sequence[Group]) -> None:
    """Put a plan into the series: shared diffs into ``common/``, the others into their release's folder."""
    shared = [group for group in groups if len(group.users) > 1]
    entries: dict[str, str] = {}
    content: dict[Path, str] = {}
    for group in groups:
        suffix = f"-{group.users[0].name}" if len(shared) > 1 else ""
        entry = f"{order.COMMON}{name}{suffix}.diff" if group in shared else f"{name}.diff"
        for release in group.users:
            entries[release.name] = entry
        header = group.patch.header if group in shared else group.patch.header.without_field("Releases")
        place = order.entry_file(group.users[0], entry)
        content[place] = Patch(entry, place, header, group.patch.diff).text()
    users = [release for release in releases() if release.name in entries]
    before: dict[Path, bytes | None] = {}
    for release in users:
        lines = order.entries(release)
        old = next(line for line in lines if patch_name(line) == name)
        before.setdefault(order.entry_file(release, old), None)
        text = "".join(f"{entries[release.name] if line == old else line}\n" for line in lines)
        content[order.series_file(release)] = text
    for place in {*before, *content}:
        before[place] = place.read_bytes() if place.is_file() else None
    try:
        for place in before.keys() - content.keys():
            place.unlink(missing_ok=True)
        for place, text in content.items():
            files.write_text(place, text)
        for release in users:
            patched_files.check(release, patched_files.compute(release))
    except BaseException:
        for place, old_content in before.items():
            if old_content is None:
                place.unlink(missing_ok=True)
            else:
                place.write_bytes(old_content)
        raise
    refresh.generate([], refresh.Outcome())


def _steps(name: str, stack: contextlib.ExitStack) -> Iterator[_Step]:
    """What the patch makes of each release that has it, oldest first."""
    for release in releases():
        patches = order.read(release)
        if name not in (patch.name for patch in patches):
            continue
        stock = stock_tree(release)
        index = stack.enter_context(index_over(stock))
        for replayed in index.replay(git.text(stock, "rev-parse", "HEAD"), patches):
            if replayed.fit.state is not State.APPLIES:
                raise ConflictError(
                    f"{release.name}: {replayed.patch.name} {replayed.fit.state.value}",
                    f"nox -s apply -- {release.name} shows it, and how to go on",
                )
            if replayed.patch.name == name:
                yield _Step(release, index, replayed)
                break


def _candidates(step: _Step, context: int) -> Iterator[Patch]:
    patch = step.replayed.patch
    yield patch
    for lines in range(context, 3):
        diff = diff_text(step.index.folder, step.replayed.before, step.replayed.after, lines=lines)
        yield Patch(patch.entry, patch.file, patch.header, diff)


def _cover(
    candidates: Sequence[tuple[Patch, frozenset[int]]], count: int
) -> list[tuple[Patch, frozenset[int]]]:
    """The fewest candidates that together fit all, those with the newest releases first."""
    best: dict[frozenset[int], tuple[Patch, frozenset[int]]] = {}
    for patch, fits in candidates:
        best.setdefault(fits, (patch, fits))
    sets = [fits for fits in best if not any(fits < other for other in best)]
    for number in range(1, len(sets) + 1):
        for chosen in itertools.combinations(sets, number):
            if len(frozenset().union(*chosen)) == count:
                return sorted((best[fits] for fits in chosen), key=lambda one: -max(one[1]))
    raise PatchsetError("a diff does not make again what it makes: nox -s refresh -- --all")


def to_share() -> list[str]:
    """Names of patches of which several releases have a diff of their own."""
    own: dict[str, int] = {}
    for place in paths.patches_dir().glob("v*/*.diff"):
        own[patch_name(place.name)] = own.get(patch_name(place.name), 0) + 1
    return sorted(name for name, number in own.items() if number > 1)
