# SPDX-License-Identifier: Apache-2.0
"""The engines lane: other parsers for the same format on the conformance suite's cases, from its totals."""

from __future__ import annotations

import tomllib

from patchset import paths
from patchset.release import Release
from patchset.results import totals

LANE = "engines"


def table(found: list[Release]) -> str:
    """One row an engine: right messages of all, and the cases whose message depends on the cut or has a quoted call."""
    rows, rust = [], []
    for release in reversed(found):
        for name, cell in totals.marked(LANE, release).items():
            cases, cut, quoted = cell["cases"], cell["burst_dependent"], cell["quoted_executed"]
            rows.append(
                [
                    f"{cell['engine']}{cell['mark']}",
                    f"{cell['right']}/{cell['all']}",
                    str(cell["white_space_only"]),
                    f"no: {cut} of {cases} cases" if cut else "yes",
                    f"yes: {quoted} of {cases} cases" if quoted else "no",
                ]
            )
            if name == "stock rust":
                rust.append(release.wheel("cuda", "x86_64"))
    if not rows:
        return f"{totals.NOT_RUN}\n"
    # The wheels that hold the other engines' parsers and the Rust frontend.
    peers = tomllib.loads((paths.project_root() / "tests/lanes/bench/peers.toml").read_text(encoding="utf-8"))
    wheels = [f"- {wheel['file']}: sha256 {wheel['sha256']}" for wheel in peers["wheels"].values()]
    wheels += [f"- {wheel.file} (Rust frontend): sha256 {wheel.sha256}" for wheel in reversed(rust)]
    head = "engine | right | wrong in white space only | burst-invariant | executes quoted calls"
    return totals.table(head, rows) + "\n" + "\n".join(wheels) + "\n"
