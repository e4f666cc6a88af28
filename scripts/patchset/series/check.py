# SPDX-License-Identifier: Apache-2.0
"""Whether a patch fits a tree: it *applies*, is *already present*, or *conflicts*. No fuzz, no offset."""

from __future__ import annotations

import enum
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unidiff.patch import Hunk, PatchedFile

from patchset.base import git
from patchset.series.patch import Patch, changed_path

#: How many lines of the tree a misfit shows around the place where the hunk should stand.
_SHOWN = 12


class State(enum.Enum):
    """What a tree makes of a patch."""

    APPLIES = "applies"
    ALREADY_PRESENT = "already present"
    CONFLICTS = "conflicts"


@dataclass(frozen=True)
class Misfit:
    """One hunk that does not fit: ``line`` counts from 1, ``why`` is one line, ``stands`` what the tree has there."""

    path: str
    hunk: int
    hunks: int
    line: int
    why: str
    stands: tuple[str, ...] = ()

    def text(self) -> str:
        """The misfit as it is shown."""
        shown = "".join(f"\n    {self.line + number:6d} | {line}" for number, line in enumerate(self.stands))
        return f"{self.path}: hunk {self.hunk} of {self.hunks}, line {self.line}: {self.why}{shown}"


@dataclass(frozen=True)
class Fit:
    """The state, and for a conflict the hunks that do not fit."""

    state: State
    misfits: tuple[Misfit, ...] = ()


def fit(patch: Patch, tree: Path) -> Fit:
    """Compare a patch with a tree (a git work tree), at exactly the lines that its hunks name.

    Git decides; the misfits are found here, because git does not say what stands in a hunk's place.
    """
    diff = patch.diff.encode()
    code, words = git.attempt(tree, "apply", "--check", "--verbose", "-", stdin=diff)
    if code == 0 and "(offset " not in words and "with fuzz" not in words:
        return Fit(State.APPLIES)
    if git.attempt(tree, "apply", "--check", "--reverse", "-", stdin=diff)[0] == 0:
        return Fit(State.ALREADY_PRESENT)
    misfits = tuple(misfit for file in patch.files for misfit in _misfits(file, tree))
    return Fit(State.CONFLICTS, misfits or (Misfit(patch.paths[0], 1, 1, 1, words.strip()[-500:]),))


def _misfits(file: PatchedFile, tree: Path) -> Iterator[Misfit]:
    path = changed_path(file)
    hunks = max(len(file), 1)
    lines = _lines(tree / path)
    if file.is_added_file:
        if lines is not None:
            same = lines == [line.value for hunk in file for line in hunk.target_lines()]
            why = (
                "the file is there already, as the patch makes it"
                if same
                else "the file to be made exists, with:"
            )
            yield Misfit(path, 1, hunks, 1, why, () if same else _show(lines, 0))
        return
    if lines is None:
        why = (
            "the file to be deleted is gone"
            if file.is_removed_file
            else "the file to be changed does not exist"
        )
        yield Misfit(path, 1, hunks, 1, why)
        return
    for number, hunk in enumerate(file, start=1):
        before = [line.value for line in hunk.source_lines()]
        at = max(hunk.source_start - 1, 0)
        if before not in ([], lines[at : at + len(before)]):
            yield Misfit(path, number, hunks, hunk.source_start, _why(hunk, lines, before), _show(lines, at))


def _why(hunk: Hunk, lines: list[str], before: list[str]) -> str:
    """Why a hunk does not fit where it says that it stands."""
    if _find(lines, [line.value for line in hunk.target_lines()]):
        return "what the patch makes stands there already; the tree has:"
    if places := _find(lines, before):
        offsets = ", ".join(f"{place + 1 - hunk.source_start:+d}" for place in places[:3])
        return f"the lines stand elsewhere (offset {offsets}), and apply takes no offset; the tree has:"
    return "the lines that the patch expects are not there, and no fuzz is taken; the tree has:"


def _find(lines: list[str], wanted: list[str]) -> list[int]:
    if not wanted:
        return []
    last = len(lines) - len(wanted)
    return [at for at in range(last + 1) if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted]


def _lines(file: Path) -> list[str] | None:
    if file.is_symlink() or not file.is_file():
        return None
    # Not splitlines(): a form feed or U+2028 ends no line of a diff.
    text = file.read_bytes().decode("utf-8", errors="surrogateescape")
    return io.StringIO(text, newline="\n").readlines()


def _show(lines: list[str], at: int) -> tuple[str, ...]:
    return tuple(line.rstrip("\r\n").encode(errors="replace").decode() for line in lines[at : at + _SHOWN])
