# SPDX-License-Identifier: Apache-2.0
"""Table of other engines' parsers on the conformance suite's cases."""

from collections.abc import Iterable

import results
from conformance.check import HARMS
from engines import SUITE_VERSION
from engines.peers import pinned
from patchset.release import Release

LANE = "engines"


def table(found: Iterable[Release]) -> str:
    """Right messages, cases that depend on the cut, and cases with a quoted call."""
    rows, rust = [], []
    for release in found:
        for name, cell in results.read(LANE, release.name).items():
            if cell["suite"] != SUITE_VERSION:
                continue
            cases, cut = cell["cases"], cell["burst_dependent"]
            quoted = cell["quoted_executed"]
            rows.append(
                [
                    cell["engine"],
                    f"{cell['right']}/{cell['all']}",
                    *(str(cell.get(harm, 0)) for harm in HARMS),
                    f"no: {cut} of {cases} cases" if cut else "yes",
                    f"yes: {quoted} of {cases} cases" if quoted else "no",
                    results.taken([cell], SUITE_VERSION, release.name),
                ]
            )
            if name == "stock rust":
                rust.append(release.wheel("cuda", "x86_64"))
    if not rows:
        return f"{results.NOT_RUN}\n"
    listed = [(wheel, "") for wheel in pinned().values()]
    listed += [(wheel, " (Rust frontend)") for wheel in rust]
    wheels = [f"- {wheel.file}{what}: sha256 {wheel.sha256}" for wheel, what in listed]
    head = f"engine | right | {' | '.join(HARMS)} | burst-invariant"
    head += " | executes quoted calls | taken"
    return results.table(head, rows) + "\n" + "\n".join(wheels) + "\n"
