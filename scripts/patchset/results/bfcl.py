# SPDX-License-Identifier: Apache-2.0
"""The bfcl lane: BFCL's own entries that its own checker finds right, stock beside patched, from its totals."""

from __future__ import annotations

import re

from patchset import paths
from patchset.release import Release
from patchset.results import totals

LANE = "bfcl"


def table(found: list[Release]) -> str:
    """One row a release that was run: right entries of those that can be right, by how the output was cut."""
    rows, head = [], ""
    for release in reversed(found):
        cells = totals.marked(LANE, release)
        for kind in totals.KINDS:
            if cell := cells.get(kind):
                head = head or f"release |  | {' | '.join(cell['right'])} | possible | set apart"
                counts = (f"{count}{cell['mark']}" for count in cell["right"].values())
                rows.append([release.name, kind, *counts, str(cell["possible"]), str(len(cell["apart"]))])
    if not rows:
        return f"{totals.NOT_RUN}\n"
    # BFCL's package as the lane pins it.
    text = (paths.project_root() / "tests/lanes/bfcl" / "requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$", text, re.MULTILINE)
    versions = (f"{name} {version}: sha256 {digest}" for name, version, digest in pins)
    return totals.table(head, rows) + "\n" + "\n".join(versions) + "\n"
