# SPDX-License-Identifier: Apache-2.0
"""Tables of what others judge."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import results
from conformance.check import HARMS
from judges import BFCL, CANITOOLCALL, RUST
from patchset.release import Release

_PIN = re.compile(r"^([\w-]+)==(\S+) \\\n +--hash=sha256:([0-9a-f]{64})$", re.MULTILINE)


def _pinned(name: str) -> str:
    """A line that names the judge's package."""
    pins = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    found = {pin[0]: pin for pin in _PIN.findall(pins)}
    _, number, digest = found[name]
    return f"\n{name} {number}: sha256 {digest}\n"


def bfcl(found: Iterable[Release]) -> str:
    """BFCL: right entries of the possible ones, by how the output was cut."""
    rows, head = [], ""
    for release in found:
        for kind, cell in results.read(BFCL.name, release.name).items():
            head = head or " | ".join(cell["right"])
            counts = [str(count) for count in cell["right"].values()]
            whole = [str(cell["possible"]), str(len(cell["apart"]))]
            day = results.taken([cell], BFCL.suite, release.name)
            rows.append([release.name, kind, *counts, *whole, day])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = f"release | | {head} | possible | set apart | taken"
    return results.table(head, rows) + _pinned("bfcl-eval")


def canitoolcall(found: Iterable[Release]) -> str:
    """canitoolcall: right fixtures, by how the output was cut, and why others differ."""
    rows, head, listed = [], "", set[str]()
    for release in found:
        for kind, cell in results.read(CANITOOLCALL.name, release.name).items():
            head = head or " | ".join(cell["right"])
            counts = [str(count) for count in cell["right"].values()]
            day = results.taken([cell], CANITOOLCALL.suite, release.name)
            rows.append([release.name, kind, *counts, str(cell["fixtures"]), day])
            if kind == "patched":
                listed |= set(cell["wrong"])
    if not rows:
        return f"{results.NOT_RUN}\n"
    text = Path(__file__).with_name("differences.toml").read_text(encoding="utf-8")
    reasons = tomllib.loads(text)
    why = "".join(f"\n- `{one}`: {reasons.get(one, '?')}" for one in sorted(listed))
    head = f"release | | {head} | fixtures | taken"
    return results.table(head, rows) + f"{why}\n" * bool(why) + _pinned("canitoolcall")


def rust(found: Iterable[Release]) -> str:
    """The Rust frontend: right messages, and cases that depend on the cut."""
    rows = []
    for release in found:
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
