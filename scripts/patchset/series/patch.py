# SPDX-License-Identifier: Apache-2.0
"""One patch: a header in DEP-3 words above a unified diff.

The header is described in docs/patching.md; DEP-3 is https://dep-team.pages.debian.net/deps/dep3/.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from packaging.version import Version
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from patchset.errors import PatchsetError

#: A patch larger than this many bytes is no small patch, and is not read.
MAX_BYTES = 2_000_000

_FIELD = re.compile(r"^([A-Z][A-Za-z-]*): (.*\S)$")
#: Where the header ends.
DIFF_START = re.compile(r"^(diff --git |--- )", re.MULTILINE)
#: What new-patch leaves to be written.
_BLANK = re.compile(r"^<.*>$")
#: What ends the name of a diff of which there are several, each for a span of releases.
_OLDEST = re.compile(r"-v\d+(\.\d+)+$")

_RELEASE = r"v\d+(\.\d+)+"
_PROOF = r"tests/patches/test_\w+\.py"
_SOURCE = r"patches/files/[0-9A-Za-z_]+(/[0-9A-Za-z_]+)*\.py"
_STATUS = rf"not submitted|pending|submitted #\d+|merged in {_RELEASE}|inappropriate \(.+\)"

#: The fields of a header: what each holds, as a pattern and in words.
_REQUIRED = {
    "Subject": (".*", "one line"),
    "Reason": (".*", "one line"),
    "Origin": (r"own|upstream PR #\d+ \(idea only\)", "own, or: upstream PR #n (idea only)"),
    "Upstream-Status": (_STATUS, "not submitted, submitted #n, merged in vX, or inappropriate (why)"),
    "Drop-When": (".*", "one line"),
    "Proof": (f"{_PROOF}( {_PROOF})*", "tests/patches/test_<name>.py, one or several"),
    "Last-Refresh": (_RELEASE, "a release, as in v0.33.0"),
}
_OPTIONAL = {
    "Native": ("yes", "yes, or no such line"),
    "Source": (f"{_SOURCE}( {_SOURCE})*", "patches/files/<path>.py, one or several"),
    "Releases": (r"v\d[\w., ]*", "releases, as in v0.24.0 to v0.33.0"),
}


class PatchFormatError(PatchsetError):
    """A diff or its header is not as the format says."""


class Header(dict[str, str]):
    """The fields above the diff, one a line, in the order of the file."""

    def with_field(self, name: str, value: str) -> Header:
        """The same header with one field changed, or added at the end."""
        return Header({**self, name: value})

    def without_field(self, name: str) -> Header:
        """The same header without one field."""
        return Header({field: value for field, value in self.items() if field != name})

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proofs that it names, relative to the checkout."""
        return tuple((self.get("Proof") or "").split())

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of ``patches/files`` that the diff carries, relative to the checkout."""
        return tuple((self.get("Source") or "").split())

    def text(self) -> str:
        """The header as it stands in a file."""
        return "".join(f"{field}: {value}\n" for field, value in self.items())

    def faults(self) -> list[str]:
        """What is wrong with it, one line each; empty when it is whole."""
        found = [f"the header has no field {name}" for name in _REQUIRED if name not in self]
        for name, value in self.items():
            pattern, allowed = (_REQUIRED | _OPTIONAL).get(name, (None, ""))
            if pattern is None:
                found.append(f"the header has an unknown field {name}")
            elif _BLANK.match(value):
                found.append(f"{name}: {value} is to be filled in")
            elif not re.fullmatch(pattern, value):
                found.append(f"{name}: {value!r} is not {allowed}")
        return found


@dataclass(frozen=True)
class Patch:
    """One diff of a series. ``entry`` is its line there, ``diff`` the text from the first ``diff --git``."""

    entry: str
    file: Path
    header: Header
    diff: str

    @property
    def name(self) -> str:
        """The file name without folder, suffix and the oldest release of a diff for a span of them."""
        return patch_name(self.entry)

    @property
    def subject(self) -> str:
        """The one line that says what it does."""
        return self.header.get("Subject") or self.name

    @property
    def native(self) -> bool:
        """Whether it says that it changes compiled or vendored files."""
        return self.header.get("Native") == "yes"

    @property
    def merged_in(self) -> Version | None:
        """The first vLLM version that has the change, as the header says."""
        status = self.header.get("Upstream-Status") or ""
        return Version(status.removeprefix("merged in v")) if status.startswith("merged in v") else None

    @cached_property
    def files(self) -> PatchSet:
        """The diff, parsed. Reading a patch checked that it can be."""
        return PatchSet(io.StringIO(self.diff, newline="\n"))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it changes, relative to the tree, in the order of the diff."""
        return tuple(file.path for file in self.files)

    def text(self) -> str:
        """The whole file."""
        return self.header.text() + "\n" + self.diff


def patch_name(entry: str) -> str:
    """The name of a series' line: without folder, suffix and the oldest release of a diff for a span of them."""
    return _OLDEST.sub("", PurePosixPath(entry).name.removesuffix(".diff"))


def read(file: Path, entry: str | None = None) -> Patch:
    """Read one ``.diff`` file."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise PatchFormatError(f"{file} cannot be read: {error.strerror}") from error
    return parse(raw, file, entry)


def parse(raw: bytes, file: Path, entry: str | None = None) -> Patch:
    """Read what stands, or is to stand, in ``file``."""
    if len(raw) > MAX_BYTES:
        raise PatchFormatError(f"{file} has {len(raw)} bytes; more than {MAX_BYTES} are not read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PatchFormatError(f"{file} is not UTF-8: {error}") from error
    if text.partition("\n")[0].endswith("\r"):
        raise PatchFormatError(f"{file} has Windows line ends (CRLF)", "save it with plain line ends (LF)")
    if not text.endswith("\n"):
        raise PatchFormatError(
            f"{file} lacks its last newline, and perhaps more", "git checkout brings it back"
        )
    start = DIFF_START.search(text)
    if start is None:
        raise PatchFormatError(f"{file} has no diff", "a patch is a header, an empty line and a unified diff")
    patch = Patch(entry or file.name, file, parse_header(text[: start.start()], file), text[start.start() :])
    _check_diff(patch)
    return patch


def parse_header(text: str, file: Path) -> Header:
    """Read the lines above a diff."""
    header = Header()
    for number, line in enumerate(text.rstrip("\n").split("\n") if text.strip() else [], start=1):
        match = _FIELD.match(line)
        if match is None:
            what = f"{file}:{number}: {line[:60]!r} is not a header line"
            raise PatchFormatError(what, "each line is 'Field: value', on one line")
        if match[1] in header:
            raise PatchFormatError(f"{file}:{number}: the header has {match[1]} twice", "take one out")
        header[match[1]] = match[2]
    return header


def _check_diff(patch: Patch) -> None:
    # Lines of a git diff's file headers; lines of hunks begin with a sign or a blank.
    for line in re.findall(r"^[^-+ @\\\n].*$", patch.diff, re.MULTILINE):
        if line.startswith(("rename ", "copy ", "GIT binary patch", "Binary files ")):
            why = f"{patch.file}: {line!r}: renames and binary files are not taken"
            raise PatchFormatError(why, "refresh writes none")
        if re.match(r"new (file )?mode (?!100644$|100755$)", line):
            raise PatchFormatError(f"{patch.file}: {line!r}: only plain files are taken, no links")
    try:
        files = patch.files
    except (UnidiffParseError, ValueError, IndexError) as error:
        raise PatchFormatError(f"{patch.file}: the diff cannot be read: {error}") from error
    if not files or any(not len(file) and not (file.is_added_file or file.is_removed_file) for file in files):
        raise PatchFormatError(f"{patch.file}: the diff changes nothing")
    for path in (side for file in files for side in (file.source_file, file.target_file)):
        first, *parts = path.split("/")
        if path == "/dev/null":
            continue
        if first not in ("a", "b") or not parts:
            why = f"{patch.file}: the path {path!r} does not begin with a/ or b/"
            raise PatchFormatError(why, "refresh writes it so")
        if not {"", ".", "..", ".git"}.isdisjoint(parts) or "\\" in path or "\0" in path:
            raise PatchFormatError(f"{patch.file}: the path {path!r} leads outside the tree")
