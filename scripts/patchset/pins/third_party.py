# SPDX-License-Identifier: Apache-2.0
"""The pin of a release's third-party sources: what its CMake files fetch from git."""

from __future__ import annotations

import re
from pathlib import Path

import tomlkit

from patchset import files, paths
from patchset.downloads import unpack
from patchset.errors import PatchsetError
from patchset.pins import cmake
from patchset.release import Release

_FILES = re.compile(r"CMakeLists\.txt|cmake/.*\.cmake")
_HEAD = """\
# What the CMake files of {release} fetch from git when its compiled modules are built from source, with the variable
# that names a folder to take instead. Written by `nox -s pin -- {release}`.
"""


def pin_file(release_folder: Path) -> Path:
    """``patches/<release>/third-party.toml``."""
    return release_folder / "third-party.toml"


def write_pin(folder: Path, release: str, sdist: Path | None, *, check: bool = False) -> bool:
    """Write the pin of an sdist's third-party sources into ``folder``; whether it was missing or said something else.

    ``check`` writes nothing. A source of another kind, or one without CMake files, has none.
    """
    text = pin_text(sdist, release) if sdist else None
    place = pin_file(folder)
    if text is None or (place.is_file() and place.read_text(encoding="utf-8") == text):
        return False
    if not check:
        files.write_text(place, text)
    return True


def pin_text(archive: Path, release: str) -> str | None:
    """The pin of the sources that an sdist's CMake files name; None for a source without such files."""
    with files.scratch(paths.build_dir()) as tree:
        unpack.sdist(archive, tree, only=_FILES)
        return _text(release, tree) if (tree / cmake.TOP).is_file() else None


def check_pin(release: Release, stock: Path) -> None:
    """See that the pin says what the stock tree's CMake files say."""
    place = pin_file(release.folder)
    text = place.read_text(encoding="utf-8") if place.is_file() else None
    if text != _text(release.name, stock):
        what = "is not what the CMake files of the source say" if text else "does not exist"
        raise PatchsetError(f"{place} {what}", f"nox -s pin -- {release.name} writes it again")


def _text(release: str, tree: Path) -> str:
    document = tomlkit.document()
    for source in cmake.third_party(tree):
        table = tomlkit.table()
        table["repository"] = source.repository
        table["commit" if source.commit else "tag"] = source.revision
        table["variable"] = source.variable
        if source.submodules is not None:
            table["submodules"] = list(source.submodules)
        if source.subfolder:
            table["subfolder"] = source.subfolder
        document[source.name] = table
    return f"{_HEAD.format(release=release)}\n{tomlkit.dumps(document)}"
