# SPDX-License-Identifier: Apache-2.0
"""The bfcl lane: BFCL's own entries that its own checker finds right, stock beside patched, from its totals."""

from __future__ import annotations

import re

from patchset.base import paths
from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

LANE = "bfcl"


def table(found: list[Release]) -> str:
    """One row a release that was run: right entries of those that can be right, by how the output was cut."""
    rows: list[str] = []
    head: list[str] = []
    for release in reversed(found):
        cells = totals.read(LANE, release.name)
        for kind in ("stock", "patched"):
            if cell := cells.get(kind):
                head = head or ["release", "", *cell["right"], "possible", "set apart"]
                mark = "" if cell["key"] == key(release, kind, LANE) else totals.STALE
                counts = (f"{count}{mark}" for count in cell["right"].values())
                rows.append(
                    f"| {release.name} | {kind} | {' | '.join(counts)} | {cell['possible']} | {len(cell['apart'])} |"
                )
    if not rows:
        return "*not run*\n"
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows, "", _versions()]) + "\n"


def _versions() -> str:
    """BFCL's package as the lane pins it."""
    text = (paths.project_root() / "tests" / "bfcl" / "requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$", text, re.MULTILINE)
    return "\n".join(f"{name} {version}: sha256 {digest}" for name, version, digest in pins)
