# SPDX-License-Identifier: Apache-2.0
"""What a release takes: our modules, and the patches, in one order for all releases.

``patches/series`` has a line for each, with the first release that takes it and, if
there is one, the last. A patch is a folder: ``reason.md``, and diffs that are named by
the first release that they fit, each valid until the next.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchset import files, git, paths
from patchset.errors import PatchsetError
from patchset.release import VERSION, Release, version
from patchset.series.mail import PATH, PROOF, Patch, PatchFormatError, stored

#: The file that lists the entries.
SERIES = "series"
#: Modules of our own, by their path in vLLM's tree, below ``patches/``.
MODULES = "modules/"
#: Of a patch: why it exists, in the folder that has its name.
REASON = "reason.md"
#: Ends the name of a file that says from which release on upstream has a patch.
MERGED = ".merged"

#: A name of a patch; the other folders of ``patches/`` have names of their own.
NAME = r"(?!(?:locks|modules|plugin|releases|series)\b)[0-9a-z][0-9a-z-]*"
_MODULE = rf"modules/vllm/(?!.*\.\.){PATH}\.py"
#: A line of the series.
ENTRY = rf"{NAME}|{_MODULE}"
_LINE = re.compile(
    rf"(?P<entry>{ENTRY}) +(?P<first>v{VERSION})(?: +(?P<last>v{VERSION}))?"
)
#: A file that a tree is made of, below ``patches/``.
INPUT = rf"{NAME}/(?:{re.escape(REASON)}|v{VERSION}\.diff)|{_MODULE}"

#: Bounds, in bytes, of a diff or module and of a list of them.
MAX_FILE = 2_000_000
MAX_LIST = 100_000


@dataclass(frozen=True)
class Line:
    """A line of the series: a patch or module, and the releases that take it.

    Without ``last``, each later release takes it too.
    """

    entry: str
    first: str
    last: str | None = None

    def takes(self, release: str) -> bool:
        """Return whether a release takes it."""
        last = self.last or release
        return version(self.first) <= version(release) <= version(last)


@dataclass(frozen=True)
class Series:
    """What a release takes, in order.

    ``modules`` are our own: path in the tree and content. ``inputs`` are the files
    below ``patches/`` that all of it is read from, with git's name of their content.
    """

    release: Release
    modules: dict[str, bytes]
    patches: list[Patch]
    inputs: dict[str, str]

    @property
    def entries(self) -> list[str]:
        """The entries of its lines."""
        return [MODULES + path for path in self.modules] + [
            patch.name for patch in self.patches
        ]


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


def lines() -> list[Line]:
    """Return the lines of the series."""
    place = paths.patches_dir() / SERIES
    found = lines_of(
        place,
        _LINE.fullmatch,
        "a line of the series",
        "modules/vllm/MODULE.py or the name of a patch, then the first release that "
        "takes it and, unless all later ones do, the last; git checkout brings a lost "
        "file back",
    )
    matches = [match for line in found if (match := _LINE.fullmatch(line))]
    read = [Line(match["entry"], match["first"], match["last"]) for match in matches]
    listed = [line.entry for line in read]
    if twice := {entry for entry in listed if listed.count(entry) > 1}:
        raise PatchsetError(
            f"{place}: {', '.join(sorted(twice))} is listed twice",
            "a patch has one range of releases without a hole",
        )
    is_patch = [not line.entry.startswith(MODULES) for line in read]
    if is_patch != sorted(is_patch):
        raise PatchsetError(
            f"{place}: a patch comes before a module",
            "move the lines of modules/ to the top",
        )
    return read


def entries(release: Release) -> list[str]:
    """Return the entries that a release takes, in order."""
    return [line.entry for line in lines() if line.takes(release.name)]


def in_order(folder: Path, suffix: str) -> dict[str, Path]:
    """Return a patch's files that are named by releases, oldest first, by those."""
    named = {
        file.name.removesuffix(suffix): file for file in folder.glob(f"v*{suffix}")
    }
    plain = [name for name in named if re.fullmatch(f"v{VERSION}", name)]
    return {name: named[name] for name in sorted(plain, key=version)}


def variant(name: str, release: str) -> Path | None:
    """Return the diff of a patch for a release; None if it has none so old."""
    found = in_order(paths.patches_dir() / name, ".diff")
    fits = [file for first, file in found.items() if version(first) <= version(release)]
    return fits[-1] if fits else None


def read_series(release: Release) -> Series:
    """Return the series with all its files; a patch with a fault is an error."""
    series = Series(release, {}, [], {})
    root = paths.patches_dir()
    for entry in entries(release):
        if entry.startswith(MODULES):
            content = content_of(root / entry)
            series.inputs[entry] = git.blob_id(content)
            series.modules[entry.removeprefix(MODULES)] = content
            continue
        if (file := variant(entry, release.name)) is None:
            raise PatchFormatError(
                f"{root / entry} has no diff for {release.name}",
                f"the series says that {release.name} takes it; git checkout brings a "
                "lost diff back",
            )
        reason = file.with_name(REASON)
        why, diff = content_of(reason), content_of(file)
        series.inputs[f"{entry}/{reason.name}"] = git.blob_id(why)
        series.inputs[f"{entry}/{file.name}"] = git.blob_id(diff)
        patch = stored(entry, why, diff, file)
        if faults := list(patch.faults()):
            raise PatchFormatError(
                f"{reason}: {'; '.join(faults)}", "docs/patching.md shows a whole patch"
            )
        series.patches.append(patch)
    return series


def content_of(file: Path) -> bytes:
    """Return the content of a part of a patch or a module: of a plain file."""
    try:
        return files.read_regular(file, MAX_FILE)
    except OSError as error:
        raise PatchFormatError(
            f"{file} cannot be read: {error.strerror or error}",
            "git checkout brings it back; a line of the series may name it in vain",
        ) from error


def taken_proofs(release: Release) -> list[str]:
    """Return the proofs that a release's stock tree must pass: of the patches that
    upstream has.
    """
    taken = {line.entry for line in lines() if line.takes(release.name)}
    found: set[str] = set()
    for folder in sorted(paths.patches_dir().iterdir()):
        marks = [
            mark
            for name, mark in in_order(folder, MERGED).items()
            if version(name) <= version(release.name)
        ]
        if folder.name in taken or not marks:
            continue
        # Where upstream has a part alone, the mark names its proofs.
        named = re.findall(rf"^Proof: ({PROOF})$", content_of(marks[-1]).decode(), re.M)
        if named:
            found.update(named)
            continue
        file = folder / REASON
        (diff, *_) = in_order(folder, ".diff").values()
        found.update(
            stored(folder.name, content_of(file), content_of(diff), where=file).proofs
        )
    return sorted(found)
