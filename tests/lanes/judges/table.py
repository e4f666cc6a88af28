# SPDX-License-Identifier: Apache-2.0
"""Tables of what others judge."""

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import results
from conformance.check import HARMS
from judges import LANES
from patchset.release import Release

_PIN = re.compile(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$", re.MULTILINE)


def _pinned(name: str) -> str:
    """Return a line that names the judge's package."""
    pins = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    number, digest = {pin[0]: pin[1:] for pin in _PIN.findall(pins)}[name]
    return f"\n{name} {number}: sha256 {digest}\n"


def bfcl(releases: Iterable[Release]) -> str:
    whole = {
        "possible": lambda cell: str(cell["possible"]),
        "set apart": lambda cell: str(len(cell["apart"])),
    }
    return _judged("bfcl", releases, whole) + _pinned("bfcl-eval")


def canitoolcall(releases: Iterable[Release]) -> str:
    releases = list(releases)
    whole = {"fixtures": lambda cell: str(cell["fixtures"])}
    table = _judged("canitoolcall", releases, whole)
    runs = results.asked("canitoolcall", releases, ["patched"])
    listed = {one for _, cells in runs for one in cells["patched"]["wrong"]}
    text = Path(__file__).with_name("differences.toml").read_text(encoding="utf-8")
    reasons = tomllib.loads(text)
    why = "".join(f"\n- `{one}`: {reasons.get(one, '?')}" for one in sorted(listed))
    return table + f"{why}\n" * bool(why) + _pinned("canitoolcall")


def _judged(
    lane: str,
    releases: Iterable[Release],
    whole: dict[str, Callable[[results.Cell], str]],
) -> str:
    """Return one row a release: right answers, not streamed and at the worst k, of
    stock and patched; what they are of, and the day.
    """
    rows = [
        [
            release.name,
            results.change(cells, lambda cell: str(cell["right"]["not streamed"])),
            results.change(cells, _worst),
            *(words(next(iter(cells.values()))) for words in whole.values()),
            results.taken(cells.values(), LANES[lane], release.name),
        ]
        for release, cells in results.asked(lane, releases)
    ]
    head = f"release | not streamed | streamed | {' | '.join(whole)}"
    return results.dated(head, results.together(rows))


def _worst(cell: results.Cell) -> str:
    """Return right answers at the k of which the fewest are right."""
    return str(min(n for way, n in cell["right"].items() if way != "not streamed"))


def rust(releases: Iterable[Release]) -> str:
    """Return the Rust frontend: right messages, and cases that depend on the cut."""
    rows = []
    for release, cells in results.asked("rust", releases, ["stock"]):
        cell = cells["stock"]
        cut, quoted = (
            f"{cell[what]} of {cell['cases']} cases" if cell[what] else ""
            for what in ("burst_dependent", "quoted_executed")
        )
        rows.append(
            [
                release.name,
                f"{cell['right']}/{cell['all']}",
                *(str(cell.get(harm, 0)) for harm in HARMS),
                f"no: {cut}" if cut else "yes",
                f"yes: {quoted}" if quoted else "no",
                results.taken([cell], LANES["rust"], release.name),
            ]
        )
    columns = [*HARMS, "burst-invariant", "executes quoted calls"]
    return results.table(f"release | right | {' | '.join(columns)} | taken", rows)
