# SPDX-License-Identifier: Apache-2.0
"""Checks of ``patches/`` that are cheap and need no source tree."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import load, release_names, version
from patchset.series import patched_files
from patchset.series.mail import Patch
from patchset.series.read import (
    MERGED,
    MODULES,
    REASON,
    SERIES,
    Line,
    Series,
    content_of,
    in_order,
    lines,
    read_series,
    variant,
)

#: The folders of ``patches/`` that are no patch.
_OTHERS = {"locks", "modules", "plugin", "releases"}


def lint() -> list[str]:
    """Return all faults of the pins, the series and the patches, one line each."""
    try:
        listed = lines()
    except PatchsetError as error:
        return [error.message]
    faults = [*_strays(listed)]
    for line in listed:
        if not line.entry.startswith(MODULES):
            faults += _range_faults(line, paths.patches_dir() / line.entry)
    for name in (*release_names(), None):
        try:
            faults += _faults(read_series(load(name)))
        except PatchsetError as error:
            faults.append(error.message)
    # A fault of a diff is met by each release that takes it, the default one twice.
    return list(dict.fromkeys(faults))


def _strays(listed: list[Line]) -> Iterator[str]:
    """Yield what is below ``patches/`` and in no line of the series."""
    root = paths.patches_dir()
    entries = {line.entry for line in listed}
    own = {file.name for file in root.iterdir()} - _OTHERS - {SERIES, "ruff.toml"}
    modules = {
        file.relative_to(root).as_posix() for file in root.glob("modules/**/*.py")
    }
    for entry in sorted((own | modules) - entries):
        yield f"patches/{entry} is in no line of patches/{SERIES}"
    texts = [
        content_of(file).decode()
        for file in root.glob("*/*")
        if file.name == REASON or file.suffix == MERGED
    ]
    for file in sorted(paths.project_root().glob("tests/patches/test_*.py")):
        proof = f"tests/patches/{file.name}"
        if entries and not any(proof in text for text in texts):
            yield f"{proof} proves no patch"


def _range_faults(line: Line, folder: Path) -> Iterator[str]:
    """Yield where the files of a patch are not those of its range."""
    diffs, merged = in_order(folder, ".diff"), in_order(folder, MERGED)
    known = {
        REASON,
        *(f"{name}.diff" for name in diffs),
        *(f"{name}{MERGED}" for name in merged),
    }
    for name in sorted({file.name for file in folder.glob("*")} - known):
        yield f"patches/{line.entry}/{name} is no part of a patch"
    if diffs and (first := next(iter(diffs))) != line.first:
        yield (
            f"patches/{line.entry}: its first diff is for {first}, its line says "
            f"{line.first}"
        )
    for name in diffs:
        if name not in release_names() or not line.takes(name):
            yield f"patches/{line.entry}/{name}.diff is for no release that takes it"
    for name in merged:
        if line.last is None or version(name) <= version(line.last):
            yield f"patches/{line.entry}/{name}{MERGED}: {name} takes the patch"


def _faults(series: Series) -> Iterator[str]:
    release = series.release
    sums = patched_files.read(release)
    if series.entries and sums is None:
        yield (
            f"{release.name}: {patched_files.FILE} does not exist; nox -s rebase -- "
            f"{release.name} writes it"
        )
    for path, content in series.modules.items():
        if sums and sums.get(path) != hashlib.sha256(content).hexdigest():
            yield (
                f"patches/{MODULES}{path} is not as {patched_files.FILE} pins it; "
                "nox -s refresh -- --all pins it anew"
            )
    for patch in series.patches:
        if file := variant(patch.name, release.name):
            yield from _file_faults(patch, file, series)
    yield from _unused(series)


def _file_faults(patch: Patch, file: Path, series: Series) -> Iterator[str]:
    reason = file.with_name(REASON)
    for place, text in ((file, patch.diff), (reason, patch.reason)):
        if text.encode() != content_of(place):
            yield f"{place}: has more than a patch needs, such as index lines"
    for path in series.modules.keys() & {*patch.paths}:
        yield f"{file}: changes {path}, which is ours: edit patches/{MODULES}{path}"
    for proof in patch.proofs:
        if not (paths.project_root() / proof).is_file():
            yield f"{reason}: its proof {proof} does not exist"


def _unused(series: Series) -> Iterator[str]:
    """Yield modules that no patch of a release imports, nor a module that one does."""
    texts = ["\n".join(patch.diff for patch in series.patches)]
    names = {path: re.compile(rf"\b{Path(path).stem}\b") for path in series.modules}
    while used := [path for path, name in names.items() if name.search(texts[-1])]:
        texts.append("\n".join(series.modules[path].decode() for path in used))
        names = {path: name for path, name in names.items() if path not in used}
    for path in names:
        yield (
            f"{series.release.name}: no patch needs {MODULES}{path}; end its line of "
            f"patches/{SERIES}"
        )
