# SPDX-License-Identifier: Apache-2.0
"""Tables of what others judge."""

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import results
from conformance.check import HARMS
from judges import BFCL, CANITOOLCALL, RUST, Lane
from patchset.release import Release

_PIN = re.compile(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$", re.MULTILINE)


def _pinned(name: str) -> str:
    """Return a line that names the judge's package."""
    pins = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    found = {pin[0]: pin for pin in _PIN.findall(pins)}
    _, number, digest = found[name]
    return f"\n{name} {number}: sha256 {digest}\n"


def bfcl(releases: Iterable[Release]) -> str:
    """BFCL: right entries of the possible ones, stock → patched."""
    whole = {
        "possible": lambda cell: str(cell["possible"]),
        "set apart": lambda cell: str(len(cell["apart"])),
    }
    table = _judged(BFCL, releases, whole)
    return table + _pinned("bfcl-eval") if table else f"{results.NOT_RUN}\n"


def canitoolcall(releases: Iterable[Release]) -> str:
    """canitoolcall: right fixtures, stock → patched, and why others differ."""
    releases = list(releases)
    whole = {"fixtures": lambda cell: str(cell["fixtures"])}
    if not (table := _judged(CANITOOLCALL, releases, whole)):
        return f"{results.NOT_RUN}\n"
    runs = [results.read(CANITOOLCALL.name, release.name) for release in releases]
    listed = {one for run in runs for one in run.get("patched", {}).get("wrong", [])}
    text = Path(__file__).with_name("differences.toml").read_text(encoding="utf-8")
    reasons = tomllib.loads(text)
    why = "".join(f"\n- `{one}`: {reasons.get(one, '?')}" for one in sorted(listed))
    return table + f"{why}\n" * bool(why) + _pinned("canitoolcall")


def _judged(
    lane: Lane,
    releases: Iterable[Release],
    whole: dict[str, Callable[[results.Cell], str]],
) -> str:
    """Return one row a release: right answers, stock → patched, not streamed and at the
    worst k; what they are of, and the day. Empty if nothing was run.
    """
    rows = []
    for release in releases:
        if cells := results.read(lane.name, release.name):
            one = next(iter(cells.values()))
            rows.append(
                [
                    release.name,
                    results.change(cells, _not_streamed),
                    results.change(cells, _worst),
                    *(words(one) for words in whole.values()),
                    results.taken(cells.values(), lane.suite, release.name),
                ]
            )
    head = f"release | not streamed | streamed | {' | '.join(whole)} | taken"
    return results.table(head, results.together(rows)) if rows else ""


def _not_streamed(cell: results.Cell) -> str:
    return str(cell["right"]["not streamed"]) if cell else results.NOT_RUN


def _worst(cell: results.Cell) -> str:
    """Return right answers at the k of which the fewest are right."""
    if not cell:
        return results.NOT_RUN
    return str(min(n for way, n in cell["right"].items() if way != "not streamed"))


def rust(releases: Iterable[Release]) -> str:
    """Return the Rust frontend: right messages, and cases that depend on the cut."""
    rows = []
    for release in releases:
        for cell in results.read(RUST.name, release.name).values():
            cases, cut = cell["cases"], cell["burst_dependent"]
            quoted = cell["quoted_executed"]
            rows.append(
                [
                    release.name,
                    f"{cell['right']}/{cell['all']}",
                    *(str(cell.get(harm, 0)) for harm in HARMS),
                    f"no: {cut} of {cases} cases" if cut else "yes",
                    f"yes: {quoted} of {cases} cases" if quoted else "no",
                    results.taken([cell], RUST.suite, release.name),
                ]
            )
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = f"release | right | {' | '.join(HARMS)} | burst-invariant"
    head += " | executes quoted calls | taken"
    return results.table(head, rows)
