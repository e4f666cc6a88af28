# SPDX-License-Identifier: Apache-2.0
"""A series ported to another release. Nothing below ``patches/`` changes before all of it is decided."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from patchset import console, files, git, paths
from patchset.errors import ConflictError, PatchsetError, UsageError
from patchset.inputs import pin
from patchset.rebase import new_series, port
from patchset.rebase.port import Outcome, Ported, Status
from patchset.rebase.report import Report, make_report
from patchset.release import load
from patchset.release import read as read_pin
from patchset.series import order
from patchset.series.apply import STOCK_REF, patched_tree
from patchset.series.stock_tree import read_stamp, stock_tree


@dataclass(frozen=True)
class Options:
    """``old``: the release whose series is ported (the nearest one without it); ``resume`` after a conflict was
    resolved; ``restart`` throws away what an earlier run left; ``replace`` a series that stands there."""

    old: str | None = None
    resume: bool = False
    restart: bool = False
    replace: bool = False


class _State(BaseModel):
    """How far a rebase came, written after each patch, so that a run that was killed goes on from there.

    ``inputs`` names the commits it started from, ``head`` the work repository's last one without an open conflict.
    """

    old: str
    inputs: tuple[str, str]
    head: str = ""
    steps: list[Outcome] = []

    @property
    def stopped(self) -> bool:
        """Whether the last step is a conflict that somebody has to decide."""
        return bool(self.steps) and self.steps[-1].status is Status.CONFLICT


def _read_state(file: Path) -> _State | None:
    try:
        return _State.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise PatchsetError(f"{file} cannot be read: {error}", f"start over: delete {file.parent}") from error


def rebase(name: str, options: Options) -> Report:
    """Port a series to the release ``name``: pin, patches, list of proofs, tables; the report of it.

    Raises:
        ConflictError: a patch needs a decision; the work repository then has an open cherry-pick of it.
        PatchsetError: an input is not available, or an earlier rebase is not finished.
    """
    if options.resume and options.restart:
        raise UsageError("--continue and --restart say opposite things")
    # An unknown release is refused before anything is written.
    asked = load(options.old).name if options.old else None
    folder = work_folder(pin.full_name(name))
    full = folder.name
    with files.lock(folder):
        if options.restart:
            shutil.rmtree(folder, ignore_errors=True)
        state = _read_state(folder / "state.json")
        if options.resume and state is None:
            raise UsageError(
                f"no rebase to {full} is under way", f"nox -s rebase -- {full} [--from RELEASE] begins one"
            )
        if state and asked not in (None, state.old):
            raise UsageError(f"a rebase of {state.old} to {full} is under way", _ways(full))
        files.remove_temp(folder)
        files.restore_replaced(paths.patches_dir())
        files.remove_temp(paths.patches_dir(), full)
        files.remove_scratch(paths.build_dir())
        if state is None:
            shutil.rmtree(folder / "work", ignore_errors=True)  # of a run that died when all was written
            files.write_text(folder / "release.toml", pin.draft(name)[1])
        job = _Rebase(folder, state.old if state else asked)
        if state is None or not job.work.is_dir():
            if job.existing and not options.replace and job.old.name != full:
                raise UsageError(
                    f"{full} has a series already",
                    "--dry-run compares it with what would be made; --replace puts the new one in its place",
                )
            state = job.begin()
        else:
            job.go_on(state, resume=options.resume)
        return job.run(state)


def dry_run(name: str, options: Options) -> Report:
    """The report of a rebase that is not made; patches that conflict are left out and said. Keeps nothing but
    downloads and source trees."""
    full, pin_text = pin.draft(name)
    with files.scratch(paths.build_dir()) as place:
        files.write_text(place / full / "release.toml", pin_text)
        job = _Rebase(place / full, options.old)
        job.begin()
        return job.report(port.port_series(job.work, job.patches, job.new.version, job.existing))


def work_folder(name: str) -> Path:
    """Where a rebase to a release keeps its state, its work repository and its report."""
    return paths.build_dir() / "rebase" / name


class _Rebase:
    """One rebase in ``folder``, where ``release.toml`` is the new release's pin; ``existing`` is the series that the
    release has already, if any."""

    def __init__(self, folder: Path, old: str | None) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.new = read_pin(folder / "release.toml")
        chosen = load(old) if old else new_series.nearest(self.new.name)
        if chosen is None:
            raise UsageError("no other release has a series", "--from RELEASE names the one to port")
        self.old = chosen
        self.patches = order.read(self.old)
        self.existing = order.read(self.new) if order.series_file(self.new).is_file() else []

    def trees(self) -> tuple[Path, Path]:
        """The new stock tree and the old patched one; when both are of one release, the patched tree from before a diff in
        core/ or extra/ changed."""
        stock = stock_tree(self.new)
        if self.old.name != self.new.name:
            return stock, patched_tree(self.old)
        tree = paths.trees_dir(self.new.name) / "patched"
        if read_stamp(tree) is None:
            raise UsageError(
                f"{self.new.name} has no patched tree from before the change",
                f"make it: git stash, nox -s apply -- {self.new.name}, git stash pop",
            )
        return stock, tree

    def begin(self) -> _State:
        """Make the work repository."""
        stock, patched = self.trees()
        with console.step(f"put {self.old.name} and {self.new.name} side by side"):
            shutil.rmtree(self.work, ignore_errors=True)
            with files.atomic_folder(self.work) as temp:
                port.work_repository(temp, stock, patched)
        state = _State(old=self.old.name, inputs=(_head(stock), _head(patched)))
        self.keep(state)
        return state

    def go_on(self, state: _State, *, resume: bool) -> None:
        """Bring the work repository where an earlier run left it: killed, or stopped at a conflict."""
        stock, patched = self.trees()
        if state.inputs != (_head(stock), _head(patched)):
            raise PatchsetError(
                f"the series of {state.old} or a source changed since the rebase to {self.new.name} began",
                f"start over: nox -s rebase -- {self.new.name} --from {state.old} --restart",
            )
        if not state.stopped:
            # Nobody else is at work here: a git that was killed left these.
            for pattern in ("*.lock", "refs/**/*.lock"):
                for left in (self.work / ".git").glob(pattern):
                    left.unlink()
            git.attempt(self.work, "cherry-pick", "--quit")
            git.run(self.work, "reset", "--quiet", "--hard", state.head)
            git.run(self.work, "clean", "--quiet", "--force", "-d", "-x")
        elif resume:
            state.steps[-1] = self.decided(state.steps[-1])
            self.keep(state)
        else:
            raise PatchsetError(
                f"the rebase to {self.new.name} stopped at the conflict in {state.steps[-1].entry}",
                _ways(self.new.name),
            )

    def decided(self, outcome: Outcome) -> Outcome:
        """What the user made of a conflict: resolved or skipped, by git's own commands or left to this one."""
        if git.attempt(self.work, "rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD")[0] == 0:
            grep = ("--literal-pathspecs", "grep", "-qE", "^(<{7}|>{7}) ", "--")
            marked = {path for path in outcome.conflicts if git.attempt(self.work, *grep, path)[0] == 0}
            if undecided := sorted(marked.union(port.conflicts(self.work))):
                raise self.conflict(replace(outcome, conflicts=tuple(undecided)))
            if git.text(self.work, "write-tree") == git.text(self.work, "rev-parse", "HEAD^{tree}"):
                git.run(self.work, "cherry-pick", "--skip")
            else:
                git.run(self.work, "-c", "core.editor=true", "cherry-pick", "--continue")
        if git.text(self.work, "status", "--porcelain"):
            raise PatchsetError(
                f"{self.work} has changes that are not committed", "commit them, or take them back"
            )
        if git.attempt(self.work, "merge-base", "--is-ancestor", STOCK_REF, "HEAD")[0] != 0:
            raise PatchsetError(
                f"HEAD of {self.work} does not descend from the source of {self.new.name}",
                _ways(self.new.name),
            )
        if outcome.entry in port.commits(self.work, STOCK_REF, "HEAD"):
            return replace(outcome, status=Status.RESOLVED)
        note = "left out by hand: say why, if upstream has not taken it"
        return replace(outcome, status=Status.DROPPED, note=note)

    def run(self, state: _State) -> Report:
        """Port the patches that are left, and write the new series."""
        for number, patch in enumerate(self.patches[len(state.steps) :], start=len(state.steps) + 1):
            outcome = port.port_patch(self.work, patch, self.new.version)
            words = f"{patch.name}: {outcome.status} {outcome.note}".rstrip()
            console.note(f"  {number}/{len(self.patches)} {words}")
            state.steps.append(outcome)
            self.keep(state)
            if state.stopped:
                ported = list(zip(self.patches, state.steps, strict=False))
                self.report(ported, stopped=True).write(self.folder)
                raise self.conflict(outcome)
        report = self.report(list(zip(self.patches, state.steps, strict=False)))
        new_series.write(self.new, self.folder / "release.toml", self.work, report.series, report.must_pass)
        report.write(self.folder)
        (self.folder / "state.json").unlink()
        shutil.rmtree(self.work)
        return report

    def keep(self, state: _State) -> None:
        """Write down how far it is."""
        if not state.stopped:
            state.head = _head(self.work)
        files.write_text(self.folder / "state.json", state.model_dump_json(indent=1) + "\n")

    def report(self, ported: list[Ported], *, stopped: bool = False) -> Report:
        """What came out; where it stopped, without a series."""
        made = [] if stopped else new_series.of_commits(self.work, self.new, self.patches)
        return make_report(self.old, self.new, self.work, ported, made, self.existing)

    def conflict(self, outcome: Outcome) -> ConflictError:
        """The error that says what is undecided, and how to go on."""
        undecided = "\n".join(f"  {path}" for path in outcome.conflicts)
        return ConflictError(
            f"{outcome.name} conflicts in {len(outcome.conflicts)} files:\n{undecided}",
            f"an ordinary cherry-pick is open, with old source, new source and patch beside each other:\n"
            f"  cd {self.work}\n"
            f"  git status; edit the files; git add FILE...\n"
            f"  git cherry-pick --continue     # or --skip: leave the patch out\n"
            f"  nox -s rebase -- {self.new.name} --continue\n"
            f"(--restart starts over; nothing below patches/ has changed)",
        )


def _head(tree: Path) -> str:
    return git.text(tree, "rev-parse", "HEAD")


def _ways(name: str) -> str:
    return f"nox -s rebase -- {name} --continue continues, --restart starts over"
