# SPDX-License-Identifier: Apache-2.0
"""What a rebase did, for the console and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from patchset.base import console, files, git
from patchset.base.release import Release, releases
from patchset.rebase.port import OLD_REF, OLD_STOCK_REF, Outcome, Status
from patchset.series import order
from patchset.series.apply import STOCK_REF
from patchset.series.patch import Patch
from patchset.series.patch import read as read_patch

#: Bound of the range-diff in the Markdown, in characters: a pull request's text takes 65536.
_SHOWN = 40_000


@dataclass(frozen=True)
class Near:
    """A file that the series touches and upstream changed: lines ``added`` and ``removed`` between the sources."""

    path: str
    added: str
    removed: str


@dataclass(frozen=True)
class Report:
    """A rebase from ``old`` to ``new``. ``differences`` compares with a series that ``new`` had before, if any."""

    old: str
    new: str
    outcomes: tuple[Outcome, ...]
    series: tuple[str, ...]
    must_pass: tuple[str, ...]
    near: tuple[Near, ...]
    range_diff: str
    differences: tuple[str, ...] | None = None
    hints: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The outcomes, counted."""
        counted = Counter(outcome.status for outcome in self.outcomes)
        return (
            ", ".join(f"{counted[status]} {status}" for status in Status if counted[status]) or "no patches"
        )

    @property
    def conflicts(self) -> bool:
        """Whether a patch conflicts."""
        return any(outcome.status is Status.CONFLICT for outcome in self.outcomes)

    def show(self, *, dry: bool) -> None:
        """Print it, the range-diff by its first lines only."""
        for outcome in self.outcomes:
            files_ = f" in {', '.join(outcome.conflicts)}" if outcome.conflicts else ""
            console.result(f"{outcome.status:20} {outcome.patch.name}{files_} {outcome.note}".rstrip())
        for proof in self.must_pass:
            console.result(f"{'stock must pass':20} {proof}")
        for near in self.near:
            console.result(f"{'changed upstream':20} {near.path} +{near.added} -{near.removed}")
        for hint in self.hints:
            console.result(f"{'look at':20} {hint}")
        for line in self.differences or ():
            console.result(f"{'not as committed':20} {line}")
        if self.differences == ():
            console.result("the same series as the existing one")
        for line in self.range_diff.splitlines():
            if not line.startswith("    "):
                console.note(f"  {line}")
        console.result(f"{self.old} to {self.new}: {self.summary}")
        for command in (
            self.next_commands() if not dry else [f"nox -s rebase -- {self.new} --from {self.old}"]
        ):
            console.note(f"next: {command}")

    def next_commands(self) -> list[str]:
        """What is to be done after it."""
        return [
            f"nox -s proofs -- {self.new}",
            f"nox -s conformance -- {self.new} --results",
            f"nox -s lock -- {self.new} --target cuda",
            f"git add patches README.md docs && git commit -m 'Series of {self.new}'",
        ]

    def markdown(self) -> str:
        """The report as a page."""
        return "\n".join(self._lines()) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``report.md`` and the whole ``range-diff.txt``."""
        files.write_text(folder / "report.md", self.markdown())
        files.write_text(folder / "range-diff.txt", self.range_diff)

    def _lines(self) -> Iterator[str]:
        yield f"# Series of {self.new}, from {self.old}'s\n\n{self.summary}.\n"
        yield "| patch | outcome | |\n|---|---|---|"
        for outcome in self.outcomes:
            words = "; ".join(
                [*(f"`{path}`" for path in outcome.conflicts), *([outcome.note] * bool(outcome.note))]
            )
            yield f"| {outcome.patch.name} | {outcome.status} | {words} |"
        own = [entry for entry in self.series if not entry.startswith(order.COMMON)]
        yield f"\n{len(self.series)} patches, {len(self.series) - len(own)} of them shared with other releases."
        if self.must_pass:
            yield "\n## Stock must pass\n\nUpstream has these patches' changes; `nox -s proofs` holds it to them.\n"
            yield from (f"- `{proof}`" for proof in self.must_pass)
        if self.hints:
            yield "\n## To be looked at\n"
            yield from (f"- {hint}" for hint in self.hints)
        if self.differences is not None:
            yield "\n## Against the series that stood there\n"
            yield from (f"- {line}" for line in self.differences or ("the same, diff by diff",))
        yield "\n## Changed upstream near the hooks\n"
        yield from (
            ["| file | + | − |", "|---|---|---|"] if self.near else ["No file that the series touches."]
        )
        yield from (f"| `{near.path}` | {near.added} | {near.removed} |" for near in self.near)
        yield "\n## git range-diff, old series against new\n\n````diff"
        yield self.range_diff[:_SHOWN].rstrip("\n")
        yield "````"
        if len(self.range_diff) > _SHOWN:
            yield f"\nCut at {_SHOWN} characters; `range-diff.txt` has all of it."
        yield "\n## Next\n"
        yield from (f"- `{command}`" for command in self.next_commands())


def make_report(
    old: Release, new: Release, work: Path, outcomes: list[Outcome], made: list[Patch], proofs: list[str]
) -> Report:
    """Gather the report from the work repository, after the last patch or at a conflict."""
    touched = sorted({path for outcome in outcomes for path in outcome.patch.paths})
    return Report(
        old=old.name,
        new=new.name,
        outcomes=tuple(outcomes),
        series=tuple(patch.entry for patch in made),
        must_pass=tuple(proofs),
        near=tuple(_near(work, touched)),
        range_diff=_range_diff(work),
        differences=_differences(new, made) if made else None,
        hints=tuple(_hints(new, made)) if made else (),
    )


def _range_diff(work: Path) -> str:
    ranges = (f"{OLD_STOCK_REF}..{OLD_REF}", f"{STOCK_REF}..HEAD")
    # git takes a range without commits for no range
    if not all(git.text(work, "rev-list", "-1", commits) for commits in ranges):
        return ""
    return git.text(work, "range-diff", "--no-color", *ranges)


def _near(work: Path, touched: list[str]) -> Iterator[Near]:
    """Files of the series that differ between the two sources."""
    if not touched:
        return
    listing = git.text(
        work, "diff", "--numstat", "--no-renames", "-z", OLD_STOCK_REF, STOCK_REF, "--", *touched
    )
    for line in listing.split("\0"):
        if line:
            added, removed, path = line.split("\t", 2)
            gone = git.attempt(work, "cat-file", "-e", f"{STOCK_REF}:{path}")[0] != 0
            yield Near(path, added, removed + (" (the file is gone)" if gone else ""))


def _hints(new: Release, made: list[Patch]) -> Iterator[str]:
    """What the new series may lack."""
    version = Version(new.version)
    # Going back, what the newer series no longer needs may be needed again: its neighbour below has it.
    names = {patch.name for patch in made}
    older = [
        release for release in releases() if Version(release.version) < version and order.entries(release)
    ]
    for patch in order.read(older[-1]) if older else []:
        if patch.name not in names and patch.merged_in and patch.merged_in > version:
            yield (
                f"{patch.name} of {older[-1].name} is not in it, and upstream has it from v{patch.merged_in} on only"
            )


def _differences(new: Release, made: list[Patch]) -> tuple[str, ...] | None:
    """How a series that stands there already differs from the one that was made; None when there is none."""
    if not order.series_file(new).is_file() or not (entries := order.entries(new)):
        return None
    there = {patch.name: patch for patch in order.read(new)}
    lines = []
    for patch in made:
        if patch.name not in there:
            lines.append(f"{patch.name} is not in it")
        elif there[patch.name].diff != patch.diff:
            lines.append(f"{patch.name} has another diff")
        elif there[patch.name].entry != patch.entry:
            lines.append(f"{patch.name} stands as {there[patch.name].entry}, would as {patch.entry}")
    names = {patch.name for patch in made}
    lines += [f"{name} is in it, and not ported" for name in there if name not in names]
    kept = [read_patch(order.entry_file(new, entry), entry).name for entry in entries]
    if not lines and kept != [patch.name for patch in made]:
        lines.append("the patches stand in another order")
    return tuple(lines)
