# SPDX-License-Identifier: Apache-2.0
"""What a rebase did, for the console and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from patchset import console, files, git
from patchset.rebase.new_series import nearest
from patchset.rebase.port import OLD_REF, OLD_STOCK_REF, Outcome, Ported, Status
from patchset.release import Release
from patchset.series import order, upstreamed
from patchset.series.apply import STOCK_REF
from patchset.series.patch import Patch

#: Bound of the range-diff in the Markdown, in characters: a pull request's text takes 65536.
_SHOWN = 40_000


@dataclass(frozen=True)
class Report:
    """A rebase from ``old`` to ``new``; ``findings`` are lines for the report, by heading."""

    old: str
    new: str
    outcomes: list[Outcome]
    series: list[Patch]
    must_pass: list[str]
    findings: dict[str, list[str]]
    range_diff: str

    @property
    def summary(self) -> str:
        """The outcomes, counted."""
        counted = Counter(outcome.status for outcome in self.outcomes)
        words = (f"{counted[status]} {status}" for status in Status if counted[status])
        return ", ".join(words) or "no patches"

    @property
    def conflicts(self) -> bool:
        """Whether a patch conflicts."""
        return any(outcome.status is Status.CONFLICT for outcome in self.outcomes)

    @property
    def next_commands(self) -> list[str]:
        """What is to be done after it."""
        return [
            f"nox -s proofs -- {self.new}",
            f"nox -s conformance -- {self.new} --results",
            f"nox -s lock -- {self.new} --target cuda",
            f"git add patches README.md docs && git commit -m 'Series of {self.new}'",
        ]

    def show(self, *, dry: bool) -> None:
        """Print it, the range-diff by its first lines only."""
        for outcome in self.outcomes:
            places = f" in {', '.join(outcome.conflicts)}" if outcome.conflicts else ""
            console.result(f"{outcome.status:20} {outcome.name}{places} {outcome.note}".rstrip())
        for what, lines in self.findings.items():
            for line in lines:
                console.result(f"{what:20} {line}")
        for line in self.range_diff.splitlines():
            if not line.startswith("    "):
                console.note(f"  {line}")
        console.result(f"{self.old} to {self.new}: {self.summary}")
        again = f"nox -s rebase -- {self.new} --from {self.old}"
        for command in [again] if dry else self.next_commands:
            console.note(f"next: {command}")

    def write(self, folder: Path) -> None:
        """Write ``report.md`` and the whole ``range-diff.txt``."""
        files.write_text(folder / "report.md", "\n".join(self._lines()) + "\n")
        files.write_text(folder / "range-diff.txt", self.range_diff)

    def _lines(self) -> Iterator[str]:
        yield f"# Series of {self.new}, from {self.old}'s\n\n{self.summary}.\n"
        yield "| patch | outcome | |\n|---|---|---|"
        for outcome in self.outcomes:
            words = [*(f"`{path}`" for path in outcome.conflicts), outcome.note]
            yield f"| {outcome.name} | {outcome.status} | {'; '.join(filter(None, words))} |"
        shared = sum(patch.entry.startswith(order.SHARED) for patch in self.series)
        yield f"\n{len(self.series)} patches, {shared} of them shared with other releases."
        for what, lines in self.findings.items():
            if lines:
                yield f"\n## {what.capitalize()}\n"
                yield from (f"- `{line}`" for line in lines)
        yield "\n## git range-diff, old series against new\n\n````diff"
        yield self.range_diff[:_SHOWN].rstrip("\n")
        yield "````"
        if len(self.range_diff) > _SHOWN:
            yield f"\nCut at {_SHOWN} characters; `range-diff.txt` has all of it."
        yield "\n## Next\n"
        yield from (f"- `{command}`" for command in self.next_commands)


def make_report(
    old: Release, new: Release, work: Path, ported: list[Ported], made: list[Patch], existing: list[Patch]
) -> Report:
    """Gather the report from the work repository, after the last patch or (``made`` is empty) at a conflict.

    ``existing`` is the series that ``new`` had before.
    """
    by_name = {patch.name: patch for patch in made}
    must_pass = _must_pass(old, new, ported, made)
    ranges = (f"{OLD_STOCK_REF}..{OLD_REF}", f"{STOCK_REF}..HEAD")
    # git takes a range without commits for no range
    compared = all(git.text(work, "rev-list", "-1", commits) for commits in ranges)
    return Report(
        old=old.name,
        new=new.name,
        outcomes=[_sized(outcome, patch, by_name.get(patch.name)) for patch, outcome in ported],
        series=made,
        must_pass=must_pass,
        findings={
            "stock must pass": must_pass,
            "changed upstream": list(
                _near(work, sorted({path for patch, _ in ported for path in patch.paths}))
            ),
            "look at": list(_hints(new, by_name)) if made else [],
            "existing series": _differences(existing, by_name) if made and existing else [],
        },
        range_diff=git.text(work, "range-diff", "--no-color", *ranges) if compared else "",
    )


def _sized(outcome: Outcome, patch: Patch, made: Patch | None) -> Outcome:
    """Say when a merge left less (or more) of a patch than it had: upstream may have taken a part."""
    if made is None or outcome.status is Status.PORTED:
        return outcome
    before, after = (
        f"+{sum(file.added for file in one.files)} −{sum(file.removed for file in one.files)}"
        for one in (patch, made)
    )
    if before == after:
        return outcome
    note = f"{after} lines, was {before}: look at what is left of it"
    return replace(outcome, note=f"{outcome.note}; {note}" if outcome.note else note)


def _must_pass(old: Release, new: Release, ported: list[Ported], made: list[Patch]) -> list[str]:
    """Proofs that the new stock tree must pass: of the dropped patches, and, not going back, those of ``old``."""
    dropped = [patch for patch, outcome in ported if outcome.status is Status.DROPPED]
    proofs = {proof for patch in dropped for proof in patch.header.proofs}
    if Version(old.version) <= Version(new.version):
        proofs.update(upstreamed.proofs(old))
    return sorted(proofs.difference(proof for patch in made for proof in patch.header.proofs))


def _near(work: Path, touched: list[str]) -> Iterator[str]:
    """The files of the series that upstream changed, with the lines added and removed between the sources."""
    if touched:
        numbers = ("diff", "--numstat", "--no-renames", "-z", OLD_STOCK_REF, STOCK_REF, "--", *touched)
        for line in git.text(work, *numbers).split("\0")[:-1]:
            added, removed, path = line.split("\t", 2)
            gone = git.attempt(work, "cat-file", "-e", f"{STOCK_REF}:{path}")[0] != 0
            yield f"{path} +{added} -{removed}{' (the file is gone)' if gone else ''}"


def _hints(new: Release, made: dict[str, Patch]) -> Iterator[str]:
    """What the new series may lack: going back, what a newer one no longer needs, and its neighbour below has."""
    older, version = nearest(new.name), Version(new.version)
    if older and Version(older.version) < version:
        for patch in order.read(older):
            if patch.name not in made and patch.merged_in and patch.merged_in > version:
                yield f"{patch.name} of {older.name} is not in it, and upstream has it from v{patch.merged_in} on only"


def _differences(existing: list[Patch], made: dict[str, Patch]) -> list[str]:
    """How a series that stands there already differs from the one that was made."""
    there = {patch.name: patch for patch in existing}
    lines = []
    for name, patch in made.items():
        if name not in there:
            lines.append(f"{name} is not in it")
        elif there[name].diff != patch.diff:
            lines.append(f"{name} has another diff")
        elif there[name].entry != patch.entry:
            lines.append(f"{name} stands as {there[name].entry}, would as {patch.entry}")
    lines += [f"{name} is in it, and not ported" for name in there if name not in made]
    if not lines and list(there) != list(made):
        lines.append("the patches stand in another order")
    return lines or ["the same series as the existing one"]
