# SPDX-License-Identifier: Apache-2.0
"""Table of the bfcl lane: entries that BFCL's own checker finds right."""

import re
from collections.abc import Iterable
from pathlib import Path

import results
from bfcl import SUITE_VERSION
from patchset.release import Release

LANE = "bfcl"


def table(found: Iterable[Release]) -> str:
    """Right entries of the possible ones, by how the output was cut."""
    rows, head = [], ""
    for release in found:
        for kind, cell in results.read(LANE, release.name).items():
            head = head or " | ".join(cell["right"])
            counts = [str(count) for count in cell["right"].values()]
            whole = [str(cell["possible"]), str(len(cell["apart"]))]
            day = results.taken([cell], SUITE_VERSION, release.name)
            rows.append([release.name, kind, *counts, *whole, day])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = f"release | | {head} | possible | set apart | taken"
    pins = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    pin = r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$"
    versions = re.findall(pin, pins, re.MULTILINE)
    lines = (f"{name} {version}: sha256 {digest}" for name, version, digest in versions)
    return results.table(head, rows) + "\n" + "\n".join(lines) + "\n"
