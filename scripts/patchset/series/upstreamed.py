# SPDX-License-Identifier: Apache-2.0
"""Proofs of patches that upstream has taken: they must pass on the stock tree of a release and of those after it.

They stand in ``patches/<release>/stock-must-pass``, one path a line, sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from patchset.release import Release
from patchset.series import order

FILE = "stock-must-pass"

_PROOF = re.compile(r"tests/patches/test_\w+\.py")


def file(release: Release) -> Path:
    """Where the list of a release stands."""
    return release.folder / FILE


def proofs(release: Release) -> list[str]:
    """The proofs that the release's stock tree must pass, relative to the checkout; none without a list."""
    place, hint = file(release), "one path a line: tests/patches/test_NAME.py"
    return order.lines_of(place, _PROOF.fullmatch, "a proof", hint) if place.exists() else []


def text(found: Iterable[str]) -> str:
    """A list as it stands in the file."""
    return "".join(f"{proof}\n" for proof in sorted(set(found)))
