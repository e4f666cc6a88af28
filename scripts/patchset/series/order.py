# SPDX-License-Identifier: Apache-2.0
"""The series: the ordered list of diffs of one release, read from ``patches/<release>/series``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.series.patch import Patch, PatchFormatError
from patchset.series.patch import read as read_patch

#: The folders of diffs that apply unchanged to several releases, as a series names them.
SHARED = ("core/", "extra/")

_ENTRY = re.compile(r"^((core|extra)/)?[0-9A-Za-z][0-9A-Za-z._-]*\.diff")


def is_entry(text: str) -> bool:
    """Whether a text names a diff of a release or of a shared folder, and nothing else."""
    return _ENTRY.fullmatch(text) is not None


def lines_of(
    place: Path, fits: Callable[[str], object], what: str, hint: str, lost: str | None = None
) -> list[str]:
    """The lines of a list below ``patches/``; the first that does not fit is an error that says ``what`` it is not.

    ``hint`` says how a line looks, ``lost`` where a lost file comes from.
    """
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}", lost) from error
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        if not fits(line):
            raise PatchsetError(f"{place}:{number}: {line[:80]!r} is not {what}", hint)
        if line in lines[: number - 1]:
            raise PatchsetError(f"{place}:{number}: {line} is listed twice")
    return lines


def series_file(release: Release) -> Path:
    """``patches/<release>/series``."""
    return release.folder / "series"


def entries(release: Release) -> list[str]:
    """The lines of the series."""
    return lines_of(
        series_file(release),
        is_entry,
        "the name of a diff",
        "one file name a line, as NAME.diff or core/NAME.diff, extra/NAME.diff; no comments, no empty lines",
        "an empty series is an empty file; git checkout brings a lost one back",
    )


def entry_file(release: Release, entry: str) -> Path:
    """The diff that a line of the series names."""
    if entry.startswith(SHARED):
        return paths.patches_dir() / entry
    return release.folder / entry


def read(release: Release) -> list[Patch]:
    """The patches of a release, in order."""
    patches = []
    for number, entry in enumerate(entries(release), start=1):
        file = entry_file(release, entry)
        if not file.is_file():
            message = f"{series_file(release)}:{number}: {entry} does not exist"
            raise PatchsetError(message, f"add {file}, or take the line out")
        patch = read_patch(file, entry)
        if faults := patch.header.faults():
            raise PatchFormatError(f"{file}: {'; '.join(faults)}", "docs/patching.md shows a whole header")
        patches.append(patch)
    return patches


def shared_files() -> list[Path]:
    """The diffs that several releases share."""
    return sorted(file for folder in SHARED for file in (paths.patches_dir() / folder).glob("*.diff"))


def users(entry: str, among: list[Release]) -> list[str]:
    """The names of the releases whose series has a line."""
    return [release.name for release in among if series_file(release).is_file() and entry in entries(release)]


def spans(users: list[Release], among: list[Release]) -> str:
    """Names of releases, three and more neighbours as "first to last"; ``among`` gives the order."""
    words: list[str] = []
    numbers = sorted(among.index(release) for release in users)
    # In a run of neighbours, number minus position stays the same.
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        names = [among[number].name for _, number in run]
        words += [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names
    return ", ".join(words)
