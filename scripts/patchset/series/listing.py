# SPDX-License-Identifier: Apache-2.0
"""The lines of the series after a release took an entry, left one out or moved one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Release, release_names, version
from patchset.series.read import MODULES, Line, content_of, in_order, lines

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
        PatchsetError: an entry's releases would have a hole.
    """
    names = sorted({*release_names(), release.name}, key=version)
    listing = Listing([])
    for line in lines():
        takes = line.entry in entries
        if line.takes(release.name) == takes:
            listing.lines.append(line)
            continue
        taking = [n for n in names if (takes if n == release.name else line.takes(n))]
        if taking:
            changed = _line(line.entry, taking, names)
            listing.lines.append(changed)
            if not takes:
                _move(listing, line, changed, release.name)
        elif line.entry.startswith(MODULES):
            listing.gone.add(line.entry)
        else:
            parts = (paths.patches_dir() / line.entry).glob("*")
            listing.gone.update(f"{line.entry}/{part.name}" for part in parts)
    by_entry = {line.entry: line for line in listing.lines}
    old = [entry for entry in entries if entry in by_entry]
    places = [number for number, line in enumerate(listing.lines) if line.entry in old]
    for number, entry in zip(places, old, strict=True):
        listing.lines[number] = by_entry[entry]
    for number, entry in enumerate(entries):
        if entry not in by_entry:
            listed = [line.entry for line in listing.lines]
            behind = listed.index(entries[number - 1]) + 1 if number else 0
            listing.lines.insert(behind, _line(entry, [release.name], names))
    return listing


def _line(entry: str, taking: Sequence[str], names: Sequence[str]) -> Line:
    """Return the line of an entry that some of all releases take."""
    start = names.index(taking[0])
    if [*taking] != [*names[start : start + len(taking)]]:
        raise PatchsetError(
            f"{entry} would be for {', '.join(taking)}, and not for a release between",
            "a range of releases has no hole: let the patch change nothing harmful "
            "there, or give the part behind it another name",
        )
    return Line(entry, taking[0], None if taking[-1] == names[-1] else taking[-1])


def _move(listing: Listing, line: Line, changed: Line, release: str) -> None:
    """Move or delete the diff that begins with a release which is left out."""
    found = in_order(paths.patches_dir() / line.entry, ".diff")
    if release in found:
        listing.gone.add(f"{line.entry}/{release}.diff")
        if changed.first != line.first and changed.first not in found:
            text = content_of(found[release]).decode()
            listing.texts[f"{line.entry}/{changed.first}.diff"] = text
