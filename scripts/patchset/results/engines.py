# SPDX-License-Identifier: Apache-2.0
"""The engines lane: other parsers for the same format on the conformance suite's cases, from its totals."""

from __future__ import annotations

import tomllib

from patchset.base import paths
from patchset.base.release import Release
from patchset.results import totals
from patchset.results.key import key

LANE = "engines"


def table(found: list[Release]) -> str:
    """One row an engine: right messages of all, and the cases whose message depends on the cut or has a quoted call."""
    rows = []
    for release in reversed(found):
        for name, cell in totals.read(LANE, release.name).items():
            mark = "" if cell["key"] == key(release, name.split(" ")[0], LANE) else totals.STALE
            cases = cell["cases"]
            cut, quoted = cell["burst_dependent"], cell["quoted_executed"]
            columns = [
                f"{cell['engine']}{mark}",
                f"{cell['right']}/{cell['all']}",
                str(cell["white_space_only"]),
                f"no: {cut} of {cases} cases" if cut else "yes",
                f"yes: {quoted} of {cases} cases" if quoted else "no",
            ]
            rows.append(f"| {' | '.join(columns)} |")
    if not rows:
        return "*not run*\n"
    head = "| engine | right | wrong in white space only | burst-invariant | executes quoted calls |"
    return "\n".join([head, "|---|---|---|---|---|", *rows, "", *_wheels(found)]) + "\n"


def _wheels(found: list[Release]) -> list[str]:
    """The wheels that hold the other engines' parsers and the Rust frontend."""
    peers = tomllib.loads(
        (paths.project_root() / "tests" / "bench" / "peers.toml").read_text(encoding="utf-8")
    )["wheels"].values()
    lines = [f"- {wheel['file']}: sha256 {wheel['sha256']}" for wheel in peers]
    for release in found:
        if "stock rust" in totals.read(LANE, release.name):
            wheel = release.wheel("cuda", "x86_64")
            lines.append(f"- {wheel.file} (Rust frontend): sha256 {wheel.sha256}")
    return lines
