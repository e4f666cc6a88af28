# SPDX-License-Identifier: Apache-2.0
"""The series of a release: its own modules, and the ordered diffs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.series.mail import PATH, PROOF, Patch, PatchFormatError, parse

#: Modules of our own, by their path in vLLM's tree, below ``patches/``.
FILES = "files/"
#: The file that lists the entries.
SERIES = "series"
#: The folders of diffs that several releases share, below ``patches/``.
SHARED = ("core/", "extra/")

_NAME = r"[0-9A-Za-z][0-9A-Za-z._-]*\.diff"
#: A line of a series.
ENTRY_LINE = re.compile(rf"(?:core/|extra/)?{_NAME}|files/vllm/(?!.*\.\.){PATH}\.py")

#: Bounds, in bytes, of a diff or module and of a list of them.
MAX_FILE = 2_000_000
MAX_LIST = 100_000


@dataclass(frozen=True)
class Series:
    """What a release takes, in order.

    ``modules`` are our own: path in the tree and content. ``inputs`` are
    the entries, and the file ``series``, with git's name of each file's content.
    """

    release: Release
    modules: dict[str, bytes]
    patches: list[Patch]
    inputs: dict[str, str]

    @property
    def entries(self) -> list[str]:
        """The lines of the series."""
        own = [FILES + path for path in self.modules]
        return own + [patch.entry for patch in self.patches]


def lines_of(
    place: Path, fits: Callable[[str], object], what: str, hint: str
) -> list[str]:
    """Return the lines of a list below ``patches/``.

    The first that is not ``what`` ends in an error; ``hint`` says how to mend it.
    """
    try:
        text = files.read_regular(place, MAX_LIST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}", hint) from error
    lines = text.removesuffix("\n").split("\n") if text else []
    seen = set()
    for number, line in enumerate(lines, start=1):
        if not fits(line):
            raise PatchsetError(f"{place}:{number}: {line[:80]!r} is not {what}", hint)
        if line in seen:
            raise PatchsetError(f"{place}:{number}: {line} is listed twice", hint)
        seen.add(line)
    return lines


def entries(release: Release) -> list[str]:
    """Return the lines of the series."""
    found = lines_of(
        release.folder / SERIES,
        ENTRY_LINE.fullmatch,
        "an entry of a series",
        "one file a line: files/vllm/MODULE.py first, then core/NAME.diff, "
        "extra/NAME.diff or NAME.diff; git checkout brings a lost file back",
    )
    if found != sorted(found, key=lambda entry: not entry.startswith(FILES)):
        place = release.folder / SERIES
        raise PatchsetError(
            f"{place}: a diff comes before a module of files/",
            "move the lines of files/ to the top",
        )
    return found


def entry_file(release: Release, entry: str) -> Path:
    """Return the file that a line of the series names."""
    shared = entry.startswith((FILES, *SHARED))
    return (paths.patches_dir() if shared else release.folder) / entry


def read_series(release: Release) -> Series:
    """Return the series with all its files; a patch with a fault is an error."""
    listed = entries(release)
    inputs = {SERIES: git.blob_id(content_of(release.folder / SERIES))}
    series = Series(release, {}, [], inputs)
    for entry in listed:
        file = entry_file(release, entry)
        content = content_of(file)
        series.inputs[entry] = git.blob_id(content)
        if entry.startswith(FILES):
            series.modules[entry.removeprefix(FILES)] = content
            continue
        patch = parse(content, file, entry)
        if faults := list(patch.faults()):
            raise PatchFormatError(
                f"{file}: {'; '.join(faults)}", "docs/patching.md shows a whole patch"
            )
        series.patches.append(patch)
    return series


def content_of(file: Path) -> bytes:
    """Return the content of a diff or a module, which must be a plain file."""
    try:
        return files.read_regular(file, MAX_FILE)
    except OSError as error:
        raise PatchFormatError(
            f"{file} cannot be read: {error.strerror or error}",
            "git checkout brings it back; a line of the series may name it in vain",
        ) from error


def shared_diffs() -> list[str]:
    """Return the diffs in the shared folders, as a series names them."""
    root = paths.patches_dir()
    return sorted(
        file.relative_to(root).as_posix()
        for folder in SHARED
        for file in (root / folder).glob("*.diff")
    )


#: The proofs that a release's stock tree must pass, because upstream has the change.
TAKEN = "stock-must-pass"


def taken_proofs(release: Release) -> list[str]:
    """Return the proofs in ``patches/<release>/stock-must-pass``; none without the
    list.
    """
    place = release.folder / TAKEN
    if not place.exists():
        return []
    return lines_of(
        place,
        re.compile(PROOF).fullmatch,
        "a proof",
        "one path a line: tests/patches/test_NAME.py",
    )
