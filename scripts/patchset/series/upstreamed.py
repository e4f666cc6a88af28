# SPDX-License-Identifier: Apache-2.0
"""Proofs of patches that upstream has taken: they must pass on the stock tree of a release and of those after it.

They stand in ``patches/<release>/stock-must-pass``, one path a line, sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from patchset.base.errors import PatchsetError
from patchset.base.release import Release

FILE = "stock-must-pass"

_PROOF = re.compile(r"^tests/patches/test_\w+\.py$")


def file(release: Release) -> Path:
    """Where the list of a release stands."""
    return release.folder / FILE


def proofs(release: Release) -> list[str]:
    """The proofs that the release's stock tree must pass, relative to the checkout; none without a list."""
    place = file(release)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not _PROOF.match(line):
            raise PatchsetError(
                f"{place}:{number}: {line[:80]!r} is not a proof",
                "one path a line: tests/patches/test_NAME.py",
            )
    return lines


def text(found: Iterable[str]) -> str:
    """A list as it stands in the file."""
    return "".join(f"{proof}\n" for proof in sorted(set(found)))
