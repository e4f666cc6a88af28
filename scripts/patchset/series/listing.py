# SPDX-License-Identifier: Apache-2.0
"""The lines of the series after a release took an entry, left one out or moved one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Release, release_names
from patchset.series.read import (
    MODULES,
    Line,
    content_of,
    in_order,
    lines,
    version,
)

#: Where the releases of a line begin.
_COLUMN = 60


@dataclass
class Listing:
    """The lines of the series, and the diffs that an entry's new range moves.

    ``texts`` are files to be written and ``gone`` those to be deleted, below
    ``patches/``.
    """

    lines: list[Line]
    texts: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The content of the file ``series``."""
        return "".join(
            f"{line.entry:{_COLUMN - 1}} {line.first}"
            + (f" {line.last}" if line.last else "")
            + "\n"
            for line in self.lines
        )


def updated(release: Release, entries: Sequence[str]) -> Listing:
    """Return the listing with which a release takes these entries, in this order.

    Raises:
        PatchsetError: other releases before and after take what this one leaves out.
    """
    known = lines()
    listing = Listing([])
    near = _Neighbours(release.name)
    for line in known:
        if line.takes(release.name) == (line.entry in entries):
            listing.lines.append(line)
        elif line.entry in entries:
            listing.lines.append(near.extended(line))
        elif shorter := near.shortened(line):
            listing.lines.append(shorter)
            _leave(listing, line, shorter, release.name)
        else:
            root = paths.patches_dir()
            parts = (root / line.entry).glob("*")
            own = [line.entry] if line.entry.startswith(MODULES) else []
            listing.gone.update(
                [*own, *(f"{line.entry}/{part.name}" for part in parts)]
            )
    _order(listing, entries, near)
    return listing


class _Neighbours:
    def __init__(self, name: str) -> None:
        self.name = name
        names = sorted({*release_names(), name}, key=version)
        number = names.index(name)
        self.before = names[number - 1] if number else None
        self.after = names[number + 1] if number + 1 < len(names) else None

    def new(self, entry: str) -> Line:
        """Return the line of an entry that this release alone takes."""
        return Line(entry, self.name, self.name if self.after else None)

    def extended(self, line: Line) -> Line:
        """Return a line with this release."""
        if line.first == self.after:
            return replace(line, first=self.name)
        if line.last and line.last == self.before:
            return replace(line, last=self.name if self.after else None)
        raise PatchsetError(
            f"{line.entry} is for {line.first} to {line.last or 'the newest release'}, "
            f"and not for the release beside {self.name}",
            "give the patch another name: a range of releases has no hole",
        )

    def shortened(self, line: Line) -> Line | None:
        """Return a line without this release; None if nothing is left."""
        last = line.last is None or line.last == self.name
        if line.first == self.name:
            return (
                None
                if line.last == self.name or not self.after
                else (replace(line, first=self.after))
            )
        if (line.last == self.name or not self.after) and last:
            return replace(line, last=self.before)
        raise PatchsetError(
            f"{self.name} leaves out {line.entry}, which releases before and after it "
            "take",
            "a range of releases has no hole: let the patch change nothing harmful "
            "there, or give the part behind it another name",
        )


def _leave(listing: Listing, line: Line, shorter: Line, release: str) -> None:
    """Move or delete the diff that begins with a release which is left out."""
    if line.entry.startswith(MODULES):
        return
    found = in_order(paths.patches_dir() / line.entry, ".diff")
    if release in found:
        listing.gone.add(f"{line.entry}/{release}.diff")
        if shorter.first != line.first and shorter.first not in found:
            text = content_of(found[release]).decode()
            listing.texts[f"{line.entry}/{shorter.first}.diff"] = text


def _order(listing: Listing, entries: Sequence[str], near: _Neighbours) -> None:
    """Put the lines of a release in its order, among the others, and add new ones."""
    by_entry = {line.entry: line for line in listing.lines}
    old = [entry for entry in entries if entry in by_entry]
    places = [number for number, line in enumerate(listing.lines) if line.entry in old]
    for number, entry in zip(places, old, strict=True):
        listing.lines[number] = by_entry[entry]
    for number, entry in enumerate(entries):
        if entry not in by_entry:
            listed = [line.entry for line in listing.lines]
            behind = listed.index(entries[number - 1]) + 1 if number else 0
            listing.lines.insert(behind, near.new(entry))
