# SPDX-License-Identifier: Apache-2.0
"""``patches/<release>/patched-files.sha256``: every file that a series changes or adds, as it must come out.

In the format of ``sha256sum``. Diffs may apply at an offset because this file pins what they make. A file that the
series deletes is not listed: a deletion applies exactly or not at all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchset.base import files, git
from patchset.base.errors import ConflictError, PatchsetError
from patchset.base.release import Release
from patchset.series import order
from patchset.series.check import Offset, State
from patchset.series.replay import Change, Replayed, changes, index_over
from patchset.series.stock_tree import stock_tree

FILE = "patched-files.sha256"

_LINE = re.compile(r"^([0-9a-f]{64})  ([^\0\r\n]+)$")


def file(release: Release) -> Path:
    """Where the sums of a release stand."""
    return release.folder / FILE


def read(release: Release) -> dict[str, str] | None:
    """The pinned sha256 of each file, by path; None where nothing is pinned yet."""
    place = file(release)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.match(line)
        if match is None or any(match[2] <= path for path in found):
            raise PatchsetError(
                f"{place}:{number}: {line[:80]!r} is not the next line of sha256sum, sorted by path",
                f"nox -s refresh -- {release.name} writes the file",
            )
        found[match[2]] = match[1]
    return found


def text(sums: Mapping[str, str]) -> str:
    """Sums as they stand in the file."""
    return "".join(f"{sums[path]}  {path}\n" for path in sorted(sums))


def write(release: Release, sums: Mapping[str, str]) -> bool:
    """Pin what a series makes; whether anything changed. A release without patches has no such file."""
    place = file(release)
    if not sums:
        there = place.is_file()
        place.unlink(missing_ok=True)
        return there
    if read_text(place) == text(sums):
        return False
    files.write_text(place, text(sums))
    return True


def read_text(place: Path) -> str | None:
    """A file's text, or None when there is none."""
    return place.read_text(encoding="utf-8") if place.is_file() else None


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
    stock = stock_tree(release)
    head = git.text(stock, "rev-parse", "HEAD")
    with index_over(stock) as index:
        steps = list(index.replay(head, order.read(release)))
        if steps and (last := steps[-1]).fit.state is not State.APPLIES:
            raise ConflictError(
                f"{release.name}: {last.patch.name} {last.fit.state.value}"
                + "".join(f"\n  {hunk.text()}" for hunk in last.fit.rejected[:3]),
                f"nox -s apply -- {release.name} shows it, and how to go on",
            )
        sums = sums_of(changes(index.folder, steps[0].before, steps[-1].after)) if steps else {}
    if found := unvouched(release, steps, sums):
        raise ConflictError(
            f"{release.name}: git had to choose a place:\n  " + "\n  ".join(found),
            "give the hunk more context, or the release a diff of its own, whose line numbers say the place",
        )
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


def unvouched(release: Release, steps: Iterable[Replayed], sums: Mapping[str, str]) -> list[str]:
    """Hunks that git had a choice for, in files that did not come out as they are pinned; one line each."""
    pinned = read(release) or {}

    def vouched(offset: Offset) -> bool:
        return not offset.ambiguous or pinned.get(offset.path, "") == sums.get(offset.path)

    return [
        f"{step.patch.name}: {offset.text()}"
        for step in steps
        for offset in step.fit.offsets
        if not vouched(offset)
    ]


def differences(release: Release, sums: Mapping[str, str]) -> list[str]:
    """Files that did not come out as pinned, one line each; empty as well where nothing is pinned."""
    pinned = read(release)
    if pinned is None:
        return []
    found = [f"{path}: not as pinned" for path in sums if path in pinned and pinned[path] != sums[path]]
    found += [f"{path}: not pinned" for path in sums if path not in pinned]
    found += [f"{path}: pinned, but no patch touches it" for path in pinned if path not in sums]
    return sorted(found)


def check(release: Release, sums: Mapping[str, str]) -> None:
    """Compare what a series made with what is pinned."""
    if found := differences(release, sums):
        raise PatchsetError(
            f"the series of {release.name} does not make what {file(release)} pins:\n  " + "\n  ".join(found),
            f"if a diff was changed on purpose, nox -s refresh -- {release.name} pins the result; "
            "git diff shows what changed",
        )
