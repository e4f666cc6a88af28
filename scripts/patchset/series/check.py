# SPDX-License-Identifier: Apache-2.0
"""Whether a patch fits a tree: it *applies*, is *already present*, or *conflicts*. Offsets are allowed, fuzz is not."""

from __future__ import annotations

import enum
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from unidiff.patch import Hunk, Line, PatchedFile

from patchset import git
from patchset.series.patch import Patch

#: How many lines of the tree a rejected hunk shows around the place where the hunk should stand.
_SHOWN = 12


class State(enum.Enum):
    """What a tree makes of a patch."""

    APPLIES = "applies"
    ALREADY_PRESENT = "already present"
    CONFLICTS = "conflicts"


@dataclass(frozen=True)
class Fit:
    """The state. In a conflict, the hunks that do not fit, in words; else whether any hunk stands elsewhere than it says
    (``offsets``), and the hunks for which git had to choose among several places (``choices``: path, words)."""

    state: State
    rejected: tuple[str, ...] = ()
    offsets: bool = False
    choices: tuple[tuple[str, str], ...] = ()


_REPORT = re.compile(
    r"^Checking patch (?P<path>.+)\.\.\.$|^Hunk #(?P<hunk>\d+) succeeded at \d+ \(offset (?P<offset>-?\d+) line",
    re.MULTILINE,
)


def fit(patch: Patch, repository: Path) -> Fit:
    """Compare a patch with the index of a git repository.

    Git decides; the rejected hunks are found here, because git does not say what stands in a hunk's place.
    """
    diff = patch.diff.encode()
    code, stderr = git.attempt(repository, "apply", "--cached", "--check", "--verbose", "-", stdin=diff)
    if code == 0 and "(offset " not in stderr:
        return Fit(State.APPLIES)
    if git.attempt(repository, "apply", "--cached", "--check", "--reverse", "-", stdin=diff)[0] == 0:
        return Fit(State.ALREADY_PRESENT)
    contents = {path: _lines(repository, path) for path in patch.paths}
    if code == 0:
        return Fit(State.APPLIES, offsets=True, choices=tuple(_choices(patch, stderr, contents)))
    rejected = tuple(words for file in patch.files for words in _rejected(file, contents[file.path]))
    return Fit(State.CONFLICTS, rejected or (f"{patch.paths[0]}: {stderr.strip()[-500:]}",))


def _choices(
    patch: Patch, stderr: str, contents: Mapping[str, list[str] | None]
) -> Iterator[tuple[str, str]]:
    """The hunks that git placed elsewhere than they say, as it reports them, where other places fit as well."""
    by_path = {file.path: file for file in patch.files}
    path = ""
    for found in _REPORT.finditer(stderr):
        if found["path"]:
            path = found["path"]
            continue
        number = int(found["hunk"])
        places = _find(contents[path] or [], _values(by_path[path][number - 1].source_lines()))
        if len(places) > 1:
            stand = ", ".join(str(at + 1) for at in places)
            offset = int(found["offset"])
            yield path, f"{patch.name}: {path}: hunk {number}, offset {offset:+d}; its lines stand at {stand}"


def _rejected(file: PatchedFile, lines: list[str] | None) -> Iterator[str]:
    """The hunks of a file that fit nowhere: why, and what the tree has in their place."""

    def words(number: int, line: int, why: str, stand: list[str]) -> str:
        # What is not UTF-8 is shown as "?".
        texts = [text.rstrip("\r\n").encode(errors="replace").decode() for text in stand[:_SHOWN]]
        shown = "".join(f"\n    {at:6d} | {text}" for at, text in enumerate(texts, start=line))
        return f"{file.path}: hunk {number} of {max(len(file), 1)}, line {line}: {why}{shown}"

    if file.is_added_file:
        if lines == [value for hunk in file for value in _values(hunk.target_lines())]:
            yield words(1, 1, "the file is there already, as the patch makes it", [])
        elif lines is not None:
            yield words(1, 1, "the file to be made exists, with:", lines)
    elif lines is None:
        what = "deleted is gone" if file.is_removed_file else "changed does not exist"
        yield words(1, 1, f"the file to be {what}", [])
    else:
        for number, hunk in enumerate(file, start=1):
            if hunk.source_length and not _find(lines, _values(hunk.source_lines())):
                at = hunk.source_start
                yield words(number, at, _why(hunk, lines), lines[max(at - 1, 0) :])


def _why(hunk: Hunk, lines: list[str]) -> str:
    """Why a hunk fits nowhere."""
    if _find(lines, _values(hunk.target_lines())):
        return "what the patch makes stands there already; the tree has:"
    bare = [value.rstrip("\r\n") for value in _values(hunk.source_lines())]
    if _find([line.rstrip("\r\n") for line in lines], bare):
        return "line ends differ (CRLF, or a last line without newline), and nothing else; the tree has:"
    return "the lines that the patch expects are not there, and no fuzz is taken; the tree has:"


def _values(lines: Iterable[Line]) -> list[str]:
    return [line.value for line in lines]


def _find(lines: list[str], wanted: list[str]) -> list[int]:
    if not wanted:
        return []
    last = len(lines) - len(wanted)
    return [at for at in range(last + 1) if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted]


def _lines(repository: Path, path: str) -> list[str] | None:
    """The lines of a plain file in the index; None when there is none."""
    listed = git.run(repository, "ls-files", "--stage", "-z", "--", f":(literal){path}").decode()
    if not listed.startswith("100"):
        return None
    # Not splitlines(): a form feed or U+2028 ends no line of a diff.
    content = git.run(repository, "cat-file", "blob", listed.split()[1])
    return io.StringIO(content.decode("utf-8", errors="surrogateescape"), newline="\n").readlines()
