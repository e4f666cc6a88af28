# SPDX-License-Identifier: Apache-2.0
"""``patches/releases/<release>/patched-files.sha256``: each file that a series changes.

In the format of ``sha256sum``. A diff may apply at an offset because this file pins
what comes out. A file that the series deletes is not listed.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.series.read import lines_of

FILE = "patched-files.sha256"

_LINE = re.compile(r"[0-9a-f]{64}  [^\0\r\n]+")


@dataclass(frozen=True)
class Change:
    """One file that a series changes; None stands for no file on that side."""

    path: str
    stock: bytes | None
    content: bytes | None
    mode: int


def file(release: Release) -> Path:
    """Return the place of a release's sums."""
    return release.folder / FILE


def read(release: Release) -> dict[str, str] | None:
    """Return the pinned sha256 of each file, by path; None if nothing is pinned yet."""
    place, hint = file(release), f"nox -s refresh -- {release.name} writes the file"
    if not place.exists():
        return None
    lines = lines_of(place, _LINE.fullmatch, "a line of sha256sum", hint)
    return {line[66:]: line[:64] for line in lines}


def text(sums: Mapping[str, str]) -> str:
    """Return sums as the file has them."""
    return "".join(f"{sums[path]}  {path}\n" for path in sorted(sums))


def sums_of(changed: Iterable[Change]) -> dict[str, str]:
    """Return the sha256 of each file that the series leaves, by path."""
    return {
        change.path: hashlib.sha256(change.content).hexdigest()
        for change in changed
        if change.content is not None
    }


def sha256(release: Release) -> str:
    """Return the sha256, in hex, of a release's source and its patched files."""
    content = {"source": release.sdist.sha256, "files": read(release) or {}}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check(release: Release, sums: Mapping[str, str]) -> None:
    """Compare what a series made with what is pinned, if anything is."""
    if (pinned := read(release)) is None:
        return
    if differing := dict(sums.items() ^ pinned.items()):
        found = [f"{path}: not as pinned" for path in sorted(differing)]
        raise PatchsetError(
            f"the series of {release.name} does not make what {file(release)} pins:\n  "
            + "\n  ".join(found),
            f"nox -s refresh -- {release.name} pins the result of an edit that was "
            "meant; git diff shows it",
        )
