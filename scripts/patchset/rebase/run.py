# SPDX-License-Identifier: Apache-2.0
"""A series ported to another release. Nothing below ``patches/`` changes before all of it is decided."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from patchset.base import console, files, git, paths
from patchset.base.errors import ConflictError, PatchsetError, UsageError
from patchset.base.release import Release, load, releases
from patchset.base.release import read as read_pin
from patchset.pins import discover
from patchset.rebase import new_series, port
from patchset.rebase import state as states
from patchset.rebase.port import Outcome, Status
from patchset.rebase.report import Report, make_report
from patchset.series import order
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF, patched_tree
from patchset.series.patch import Patch
from patchset.series.stock_tree import read_stamp, stock_tree


@dataclass(frozen=True)
class Options:
    """``old``: the release whose series is ported (the nearest one without it); ``resume`` after a conflict was
    resolved; ``restart`` throws away what an earlier run left; ``replace`` a series that stands there."""

    old: str | None = None
    resume: bool = False
    restart: bool = False
    replace: bool = False


def rebase(name: str, options: Options) -> Report:
    """Port a series to the release ``name``: pin, patches, list of proofs, tables; the report of it.

    Raises:
        ConflictError: a patch needs a decision; the work repository then has an open cherry-pick of it.
        PatchsetError: an input is not available, or an earlier rebase is not finished.
    """
    if options.resume and options.restart:
        raise UsageError("--continue and --restart say opposite things")
    if options.old:
        load(options.old)  # an unknown release is refused before anything is written
    folder = work_folder(discover.full_name(name))
    full = folder.name
    with files.lock(folder):
        if options.restart:
            shutil.rmtree(folder, ignore_errors=True)
        state = states.read(folder)
        if options.resume and state is None:
            raise UsageError(
                f"no rebase to {full} is under way", f"nox -s rebase -- {full} [--from RELEASE] begins one"
            )
        files.remove_temp(folder)
        files.restore_replaced(paths.patches_dir())
        files.remove_temp(paths.patches_dir(), full)
        files.remove_scratch(paths.build_dir())
        if state is None:
            shutil.rmtree(folder / "work", ignore_errors=True)  # of a run that died when all was written
            files.write_text(folder / "release.toml", discover.draft(name)[1])
        return _Rebase(folder, options, state).run()


def dry_run(name: str, options: Options) -> Report:
    """The report of a rebase that is not made; patches that conflict are left out and said. Keeps nothing but
    downloads and source trees."""
    full, pin_text = discover.draft(name)
    with files.scratch(paths.build_dir()) as place:
        folder = place / full
        files.write_text(folder / "release.toml", pin_text)
        return _Rebase(folder, options, None).dry_run()


def work_folder(name: str) -> Path:
    """Where a rebase to a release keeps its state, its work repository and its report."""
    return paths.build_dir() / "rebase" / name


def nearest(name: str) -> Release:
    """The release whose series a new one starts from: the newest below it that has one, else the oldest above."""
    version = Version(name.removeprefix("v"))
    others = [release for release in releases() if release.name != name and order.entries(release)]
    below = [release for release in others if Version(release.version) < version]
    if not others:
        raise UsageError("no other release has a series", "--from RELEASE names the one to port")
    return below[-1] if below else others[0]


class _Rebase:
    """One rebase in ``folder``, where ``release.toml`` is the new release's pin."""

    def __init__(self, folder: Path, options: Options, state: states.State | None) -> None:
        self.folder, self.options = folder, options
        self.work = folder / "work"
        self.new = read_pin(folder / "release.toml")
        before = state.old if state else None
        if before and options.old and load(options.old).name != before:
            raise UsageError(f"a rebase of {before} to {self.new.name} is under way", _ways(self.new.name))
        chosen = options.old or before
        self.old = load(chosen) if chosen else nearest(self.new.name)
        self.state = state
        self.patches = order.read(self.old)

    def run(self) -> Report:
        state = self._ready_state()
        while len(state.steps) < len(self.patches):
            number = len(state.steps)
            patch = self.patches[number]
            commit = port.old_commits(self.work).get(patch.entry)
            outcome = port.port_patch(self.work, patch, commit, self.new.source_date_epoch, self.new.version)
            console.note(
                f"  {number + 1}/{len(self.patches)} {patch.name}: {outcome.status} {outcome.note}".rstrip()
            )
            self._keep(state, outcome)
            if outcome.status is Status.CONFLICT:
                self._report(state, []).write(self.folder)
                raise self._conflict(outcome)
        made = new_series.of_commits(self.work, self.new, self.patches)
        report = self._report(state, made)
        state.phase = "writing"
        states.write(self.folder, state)
        new_series.write(self.new, self.folder / "release.toml", self.work, made, report.must_pass)
        report.write(self.folder)
        (self.folder / "state.json").unlink()
        shutil.rmtree(self.work)
        return report

    def dry_run(self) -> Report:
        state = self._begin()
        epoch, version = self.new.source_date_epoch, self.new.version
        known = {patch.name: patch for patch in order.read(self.new)} if self._has_series() else {}
        for outcome in port.port_series(self.work, self.patches, epoch, version, known):
            state.record(outcome)
        return self._report(state, new_series.of_commits(self.work, self.new, self.patches))

    def _ready_state(self) -> states.State:
        """A new state, or the one that an earlier run left, with the work repository as that one says."""
        state = self.state
        if state is None or not self.work.is_dir():
            self._refuse_existing()
            return self._begin()
        if state.inputs != self._inputs():
            raise PatchsetError(
                f"the series of {state.old} or a source changed since the rebase to {state.new} began",
                f"start over: nox -s rebase -- {state.new} --from {state.old} --restart",
            )
        if state.phase == "stopped":
            if not self.options.resume:
                raise PatchsetError(
                    f"the rebase to {state.new} stopped at the conflict in {state.steps[-1].entry}",
                    _ways(state.new),
                )
            self._resolved(state)
        else:
            git.attempt(self.work, "cherry-pick", "--quit")
            (self.work / ".git" / "index.lock").unlink(missing_ok=True)
            git.run(self.work, "reset", "--quiet", "--hard", state.head)
            git.run(self.work, "clean", "--quiet", "--force", "-d", "-x")
        return state

    def _refuse_existing(self) -> None:
        if self._has_series() and not self.options.replace and self.old.name != self.new.name:
            raise UsageError(
                f"{self.new.name} has a series already",
                "--dry-run compares it with what would be made; --replace puts the new one in its place",
            )

    def _has_series(self) -> bool:
        return order.series_file(self.new).is_file() and bool(order.entries(self.new))

    def _inputs(self) -> tuple[str, str]:
        """What a rebase depends on: the commits of the new source and of the old patched tree."""
        stock = stock_tree(self.new)
        return git.text(stock, "rev-parse", "HEAD"), git.text(self._old_tree(), "rev-parse", "HEAD")

    def _old_tree(self) -> Path:
        """The old patched tree; of the same release the one from before a diff in ``common/`` changed."""
        if self.old.name != self.new.name:
            return patched_tree(self.old)
        tree = paths.trees_dir(self.new.name) / "patched"
        if read_stamp(tree) is None:
            raise UsageError(
                f"{self.new.name} has no patched tree from before the change",
                f"make it: git stash, nox -s apply -- {self.new.name}, git stash pop",
            )
        return tree

    def _begin(self) -> states.State:
        inputs = self._inputs()
        with console.step(f"put {self.old.name} and {self.new.name} side by side"):
            shutil.rmtree(self.work, ignore_errors=True)
            with files.atomic_folder(self.work) as temp:
                port.work_repository(
                    temp, paths.trees_dir(self.new.name) / "stock", paths.trees_dir(self.old.name) / "patched"
                )
        state = states.State(old=self.old.name, new=self.new.name, inputs=inputs, head=inputs[0])
        states.write(self.folder, state)
        return state

    def _keep(self, state: states.State, outcome: Outcome) -> None:
        state.record(outcome)
        state.phase = "stopped" if outcome.status is Status.CONFLICT else "running"
        if state.phase == "running":
            state.head = git.text(self.work, "rev-parse", "HEAD")
        states.write(self.folder, state)

    def _resolved(self, state: states.State) -> None:
        """Take what the user made of a conflict: resolved or skipped, by git's own commands or left to this one."""
        step = state.steps[-1]
        patch = self.patches[len(state.steps) - 1]
        note = ""
        if port.picking(self.work):
            self._finish_pick(step, patch)
        if git.text(self.work, "status", "--porcelain"):
            raise PatchsetError(
                f"{self.work} has changes that are not committed", "commit them, or take them back"
            )
        if git.attempt(self.work, "merge-base", "--is-ancestor", STOCK_REF, "HEAD")[0] != 0:
            raise PatchsetError(
                f"HEAD of {self.work} does not descend from the source of {state.new}", _ways(state.new)
            )
        trailers = git.text(
            self.work, "log", f"--format=%(trailers:key={ENTRY_TRAILER},valueonly)", f"{STOCK_REF}..HEAD"
        )
        there = patch.entry in trailers.split()
        if not there:
            note = "left out by hand: say why, if upstream has not taken it"
        state.steps[-1] = step.model_copy(
            update={"status": Status.RESOLVED if there else Status.DROPPED, "note": note}
        )
        state.phase = "running"
        state.head = git.text(self.work, "rev-parse", "HEAD")
        states.write(self.folder, state)

    def _finish_pick(self, step: states.Step, patch: Patch) -> None:
        marked = [path for path in step.conflicts if _has_markers(self.work / path)]
        if undecided := sorted({*port.conflicts(self.work), *marked}):
            raise self._conflict(Outcome(patch, Status.CONFLICT, conflicts=tuple(undecided)))
        if git.text(self.work, "write-tree") == git.text(self.work, "rev-parse", "HEAD^{tree}"):
            port.skip(self.work)
        else:
            git.run(self.work, "-c", "core.editor=true", "cherry-pick", "--continue")

    def _conflict(self, outcome: Outcome) -> ConflictError:
        new = self.new.name
        undecided = "\n".join(f"  {path}" for path in outcome.conflicts)
        return ConflictError(
            f"{outcome.patch.name} conflicts in {len(outcome.conflicts)} files:\n{undecided}",
            f"an ordinary cherry-pick is open, with old source, new source and patch beside each other:\n"
            f"  cd {self.work}\n"
            f"  git status; edit the files; git add FILE...\n"
            f"  git cherry-pick --continue     # or --skip: leave the patch out\n"
            f"  nox -s rebase -- {new} --continue\n"
            f"(--restart starts over; nothing below patches/ has changed)",
        )

    def _report(self, state: states.State, made: list[Patch]) -> Report:
        outcomes = state.outcomes(self.patches)
        by_name = {patch.name: patch for patch in made}
        outcomes = [
            port.size_note(outcome, by_name[outcome.patch.name]) if outcome.patch.name in by_name else outcome
            for outcome in outcomes
        ]
        proofs = new_series.must_pass_proofs(self.old, self.new, outcomes, made)
        return make_report(self.old, self.new, self.work, outcomes, made, proofs)


def _has_markers(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    return any(line.startswith((b"<<<<<<< ", b">>>>>>> ")) for line in file.read_bytes().split(b"\n"))


def _ways(name: str) -> str:
    return f"nox -s rebase -- {name} --continue continues, --restart starts over"
