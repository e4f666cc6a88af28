# SPDX-License-Identifier: Apache-2.0
"""The series: the ordered list of diffs of one release, read from ``patches/<release>/series``."""

from __future__ import annotations

import re
from pathlib import Path

from patchset.base import paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release
from patchset.series.patch import Patch, PatchFormatError
from patchset.series.patch import read as read_patch

#: Where diffs stand that apply unchanged to several releases, as a series names it.
COMMON = "../common/"

_ENTRY = re.compile(rf"^({re.escape(COMMON)})?[0-9A-Za-z][0-9A-Za-z._-]*\.diff")


def is_entry(text: str) -> bool:
    """Whether a text names a diff of a release or of ``common/``, and nothing else."""
    return _ENTRY.fullmatch(text) is not None


def series_file(release: Release) -> Path:
    """``patches/<release>/series``."""
    return release.folder / "series"


def entries(release: Release) -> list[str]:
    """The lines of the series."""
    file = series_file(release)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(
            f"{file} cannot be read: {error}",
            "an empty series is an empty file; git checkout brings a lost one back",
        ) from error
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        if not is_entry(line):
            raise PatchsetError(
                f"{file}:{number}: {line[:80]!r} is not the name of a diff",
                "one file name a line, as NAME.diff or ../common/NAME.diff; no comments, no empty lines",
            )
        if line in lines[: number - 1]:
            raise PatchsetError(f"{file}:{number}: {line} is listed twice")
    return lines


def entry_file(release: Release, entry: str) -> Path:
    """The diff that a line of the series names."""
    if entry.startswith(COMMON):
        return paths.patches_dir() / "common" / entry.removeprefix(COMMON)
    return release.folder / entry


def read(release: Release) -> list[Patch]:
    """The patches of a release, in order."""
    patches = []
    for number, entry in enumerate(entries(release), start=1):
        file = entry_file(release, entry)
        if not file.is_file():
            raise PatchsetError(
                f"{series_file(release)}:{number}: {entry} does not exist",
                f"add {file}, or take the line out",
            )
        patch = read_patch(file, entry)
        if faults := patch.header.faults():
            raise PatchFormatError(f"{file}: {'; '.join(faults)}", "docs/patching.md shows a whole header")
        patches.append(patch)
    return patches


def users(entry: str, among: list[Release]) -> list[str]:
    """The names of the releases whose series has a line."""
    return [release.name for release in among if series_file(release).is_file() and entry in entries(release)]


def spans(users: list[Release], among: list[Release]) -> str:
    """Names of releases, three and more neighbours as "first to last"; ``among`` gives the order."""
    numbers = [among.index(release) for release in users]
    words = []
    while numbers:
        length = 1
        while length < len(numbers) and numbers[length] == numbers[0] + length:
            length += 1
        names = [among[number].name for number in numbers[:length]]
        words += [f"{names[0]} to {names[-1]}"] if length > 2 else names
        del numbers[:length]
    return ", ".join(words)
