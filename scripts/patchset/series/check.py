# SPDX-License-Identifier: Apache-2.0
"""Whether a patch fits a tree: it *applies*, is *already present*, or *conflicts*. Offsets are allowed, fuzz is not."""

from __future__ import annotations

import enum
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unidiff.patch import Hunk, PatchedFile

from patchset.base import git
from patchset.series.patch import Patch, changed_path

#: How many lines of the tree a rejected hunk shows around the place where the hunk should stand.
_SHOWN = 12


class State(enum.Enum):
    """What a tree makes of a patch."""

    APPLIES = "applies"
    ALREADY_PRESENT = "already present"
    CONFLICTS = "conflicts"


@dataclass(frozen=True)
class RejectedHunk:
    """One hunk that does not fit: ``line`` counts from 1, ``why`` is one line, ``stands`` what the tree has there."""

    path: str
    hunk: int
    hunks: int
    line: int
    why: str
    stands: tuple[str, ...] = ()

    def text(self) -> str:
        """The rejected hunk as it is shown."""
        shown = "".join(f"\n    {self.line + number:6d} | {line}" for number, line in enumerate(self.stands))
        return f"{self.path}: hunk {self.hunk} of {self.hunks}, line {self.line}: {self.why}{shown}"


@dataclass(frozen=True)
class Offset:
    """One hunk that fits ``lines`` further down than it says; ``places`` are the lines where it would fit as well."""

    path: str
    hunk: int
    lines: int
    places: tuple[int, ...]

    @property
    def ambiguous(self) -> bool:
        """Whether its lines stand in more than one place, so that git had to choose."""
        return len(self.places) > 1

    def text(self) -> str:
        """The offset as it is shown."""
        where = f"; its lines stand at {', '.join(map(str, self.places))}" if self.ambiguous else ""
        return f"{self.path}: hunk {self.hunk}, offset {self.lines:+d}{where}"


@dataclass(frozen=True)
class Fit:
    """The state; the hunks that do not fit, or those that fit at an offset."""

    state: State
    rejected: tuple[RejectedHunk, ...] = ()
    offsets: tuple[Offset, ...] = ()


_CHECKING = re.compile(r"Checking patch (.+)\.\.\.$")
_OFFSET = re.compile(r"Hunk #(\d+) succeeded at \d+ \(offset (-?\d+) lines?\)\.$")


def fit(patch: Patch, repository: Path, index: Path | None = None) -> Fit:
    """Compare a patch with the index of a git repository, its own or the one in the file ``index``.

    Git decides; the rejected hunks are found here, because git does not say what stands in a hunk's place.
    """
    diff = patch.diff.encode()
    code, stderr = git.attempt(
        repository, "apply", "--cached", "--check", "--verbose", "-", stdin=diff, index=index
    )
    if code == 0 and "(offset " not in stderr:
        return Fit(State.APPLIES)
    check = ("apply", "--cached", "--check", "--reverse", "-")
    if git.attempt(repository, *check, stdin=diff, index=index)[0] == 0:
        return Fit(State.ALREADY_PRESENT)
    contents = {path: _lines(repository, path, index) for path in patch.paths}
    if code == 0:
        return Fit(State.APPLIES, offsets=tuple(_offsets(patch, stderr, contents)))
    rejected = tuple(
        hunk for file in patch.files for hunk in _rejected_hunks(file, contents[changed_path(file)])
    )
    return Fit(State.CONFLICTS, rejected or (RejectedHunk(patch.paths[0], 1, 1, 1, stderr.strip()[-500:]),))


def _offsets(patch: Patch, stderr: str, contents: dict[str, list[str] | None]) -> Iterator[Offset]:
    """The hunks that git placed elsewhere than they say, as it reports them."""
    by_path = {changed_path(file): file for file in patch.files}
    path = ""
    for line in stderr.splitlines():
        if match := _CHECKING.match(line):
            path = match[1]
        elif match := _OFFSET.match(line):
            number = int(match[1])
            before = [line.value for line in by_path[path][number - 1].source_lines()]
            places = tuple(at + 1 for at in _find(contents[path] or [], before))
            yield Offset(path, number, int(match[2]), places)


def _rejected_hunks(file: PatchedFile, lines: list[str] | None) -> Iterator[RejectedHunk]:
    path = changed_path(file)
    hunks = max(len(file), 1)
    if file.is_added_file:
        if lines is not None:
            same = lines == [line.value for hunk in file for line in hunk.target_lines()]
            why = (
                "the file is there already, as the patch makes it"
                if same
                else "the file to be made exists, with:"
            )
            yield RejectedHunk(path, 1, hunks, 1, why, () if same else _show(lines, 0))
        return
    if lines is None:
        why = (
            "the file to be deleted is gone"
            if file.is_removed_file
            else "the file to be changed does not exist"
        )
        yield RejectedHunk(path, 1, hunks, 1, why)
        return
    for number, hunk in enumerate(file, start=1):
        before = [line.value for line in hunk.source_lines()]
        if before and not _find(lines, before):
            at = max(hunk.source_start - 1, 0)
            yield RejectedHunk(path, number, hunks, hunk.source_start, _why(hunk, lines), _show(lines, at))


def _why(hunk: Hunk, lines: list[str]) -> str:
    """Why a hunk fits nowhere."""
    if _find(lines, [line.value for line in hunk.target_lines()]):
        return "what the patch makes stands there already; the tree has:"
    if _find(
        [line.rstrip("\r\n") for line in lines], [line.value.rstrip("\r\n") for line in hunk.source_lines()]
    ):
        return "line ends differ (CRLF, or a last line without newline), and nothing else; the tree has:"
    return "the lines that the patch expects are not there, and no fuzz is taken; the tree has:"


def _find(lines: list[str], wanted: list[str]) -> list[int]:
    if not wanted:
        return []
    last = len(lines) - len(wanted)
    return [at for at in range(last + 1) if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted]


def _lines(repository: Path, path: str, index: Path | None) -> list[str] | None:
    """The lines of a plain file in the index; None when there is none."""
    listed = git.run(repository, "ls-files", "--stage", "-z", "--", f":(literal){path}", index=index).decode()
    if not listed.startswith("100"):
        return None
    # Not splitlines(): a form feed or U+2028 ends no line of a diff.
    content = git.run(repository, "cat-file", "blob", listed.split()[1])
    return io.StringIO(content.decode("utf-8", errors="surrogateescape"), newline="\n").readlines()


def _show(lines: list[str], at: int) -> tuple[str, ...]:
    return tuple(line.rstrip("\r\n").encode(errors="replace").decode() for line in lines[at : at + _SHOWN])
