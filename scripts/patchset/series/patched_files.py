# SPDX-License-Identifier: Apache-2.0
"""``patches/<release>/patched-files.sha256``: every file that a series changes or adds, as it must come out.

In the format of ``sha256sum``. Diffs may apply at an offset because this file pins what they make. A file that the
series deletes is not listed: a deletion applies exactly or not at all.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchset import files
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release
from patchset.series import order
from patchset.series.replay import Change, changes, replayed

FILE = "patched-files.sha256"

_LINE = re.compile(r"[0-9a-f]{64}  [^\0\r\n]+")


def file(release: Release) -> Path:
    """Where the sums of a release stand."""
    return release.folder / FILE


def read(release: Release) -> dict[str, str] | None:
    """The pinned sha256 of each file, by path; None where nothing is pinned yet."""
    place, hint = file(release), f"nox -s refresh -- {release.name} writes the file"
    if not place.exists():
        return None
    pinned = [
        (line[66:], line[:64]) for line in order.lines_of(place, _LINE.fullmatch, "a line of sha256sum", hint)
    ]
    for number, ((before, _), (path, _)) in enumerate(itertools.pairwise(pinned), start=2):
        if path <= before:
            raise PatchsetError(f"{place}:{number}: {path} does not come after {before}", hint)
    return dict(pinned)


def text(sums: Mapping[str, str]) -> str:
    """Sums as they stand in the file."""
    return "".join(f"{sums[path]}  {path}\n" for path in sorted(sums))


def write(release: Release, sums: Mapping[str, str]) -> bool:
    """Pin what a series makes; whether anything changed. A release without patches has no such file."""
    place, wanted = file(release), text(sums) or None
    there = place.read_text(encoding="utf-8") if place.is_file() else None
    if wanted is None:
        place.unlink(missing_ok=True)
    elif wanted != there:
        files.write_text(place, wanted)
    return wanted != there


def sums_of(changed: Iterable[Change]) -> dict[str, str]:
    """The sha256 of each file that is there after the series, by path."""
    return {
        change.path: hashlib.sha256(change.content).hexdigest()
        for change in changed
        if change.content is not None
    }


def compute(release: Release) -> dict[str, str]:
    """What the series makes of the stock tree, as sums.

    Raises:
        ConflictError: a patch does not fit, or git had to choose a place for a hunk and what came out is not pinned.
    """
    with replayed(release) as (index, steps):
        sums = sums_of(changes(index, steps[0].before, steps[-1].after)) if steps else {}
    vouch(release, [choice for step in steps for choice in step.fit.choices], sums)
    return sums


def sha256(release: Release, left_out: tuple[str, ...] = ()) -> str:
    """What names the content of a patched release: the sha256, in hex, of its source's name and its patched files.

    Words of a header change nothing of it, nor does a patch that is folded into another, nor a file below one of the
    folders ``left_out``.
    """
    sums = read(release)
    sums = compute(release) if sums is None else sums
    sums = {name: digest for name, digest in sums.items() if not name.startswith(left_out)}
    content = {"source": source(release), "files": sums}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def source(release: Release) -> str:
    """What names the content of a release's source: its archive's sha256, or its commit."""
    if release.sdist is not None:
        return release.sdist.sha256
    assert release.git is not None  # noqa: S101 - a pin with neither is refused where it is read
    return release.git.commit


def vouch(release: Release, choices: Iterable[tuple[str, str]], sums: Mapping[str, str]) -> None:
    """Refuse hunks (path, words) for which git had to choose a place, unless the file came out as it is pinned."""
    pinned = read(release) or {}
    if found := [words for path, words in choices if pinned.get(path, "") != sums.get(path)]:
        raise ConflictError(
            f"git had to choose a place in {release.name}:\n  " + "\n  ".join(found),
            "give the hunk more context, or the release a diff of its own, whose line numbers say the place",
        )


def check(release: Release, sums: Mapping[str, str]) -> None:
    """Compare what a series made with what is pinned, if anything is."""
    if (pinned := read(release)) is None:
        return
    found = [f"{path}: not pinned" for path in sums.keys() - pinned.keys()]
    found += [f"{path}: pinned, but no patch touches it" for path in pinned.keys() - sums.keys()]
    found += [f"{path}: not as pinned" for path in sums.keys() & pinned if pinned[path] != sums[path]]
    if found:
        raise PatchsetError(
            f"the series of {release.name} does not make what {file(release)} pins:\n  "
            + "\n  ".join(sorted(found)),
            f"if a diff was changed on purpose, nox -s refresh -- {release.name} pins the result; "
            "git diff shows what changed",
        )
