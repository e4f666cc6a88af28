# SPDX-License-Identifier: Apache-2.0
"""Checks of ``patches/`` that are cheap and need no source tree."""

from collections.abc import Iterator

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import load, release_names
from patchset.series import patched_files
from patchset.series.read import (
    Series,
    content_of,
    entries,
    entry_file,
    read_series,
    shared_diffs,
)


def lint() -> list[str]:
    """Return all faults of the pins, the series and the diffs, one line each."""
    faults: list[str] = []
    used: set[str] = set()
    for name in (*release_names(), None):
        try:
            release = load(name)
            used.update(entries(release))
            faults += _faults(read_series(release))
        except PatchsetError as error:
            faults.append(error.message)
    root = paths.patches_dir()
    modules = (file.relative_to(root).as_posix() for file in root.glob("files/**/*.py"))
    shared = [*shared_diffs(), *modules]
    faults += [f"{entry} is in no series" for entry in shared if entry not in used]
    # A fault of a shared diff is met by each release, the default one twice.
    return list(dict.fromkeys(faults))


def _faults(series: Series) -> Iterator[str]:
    release = series.release
    own = {file.name for file in release.folder.glob("*.diff")}
    for name in sorted(own.difference(series.entries)):
        yield f"{release.name}: {name} is in no series"
    if series.entries and patched_files.read(release) is None:
        yield (
            f"{release.name}: {patched_files.FILE} does not exist; nox -s refresh -- "
            f"{release.name} writes it"
        )
    for patch in series.patches:
        file = entry_file(release, patch.entry)
        if patch.text().encode() != content_of(file):
            yield (
                f"{file}: has more than From, Subject, message and diff, such as index "
                "lines"
            )
        for proof in patch.proofs:
            if not (paths.project_root() / proof).is_file():
                yield f"{file}: its proof {proof} does not exist"
