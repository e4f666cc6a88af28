# SPDX-License-Identifier: Apache-2.0
"""The patch, or the release, at which a case of the conformance suite changes its verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, paths
from patchset.errors import PatchsetError, UsageError
from patchset.proofs import prove
from patchset.release import Release
from patchset.series import order
from patchset.series.apply import patched_tree

#: Bound of one run of one case, in seconds; importing vLLM takes five to twenty.
CASE_TIMEOUT = 900


#: What a case is judged on: the name of a patch, "stock" or a release; the release, its patched tree, and the commit.
Step = tuple[str, Release, Path, str]


@dataclass(frozen=True)
class Verdict:
    """How many of a case's responses were right after ``step``."""

    step: str
    right: int
    all: int

    @property
    def passed(self) -> bool:
        """Whether the case passes."""
        return self.right == self.all


def by_patch(release: Release) -> Iterator[Step]:
    """The stock tree, then each patch of a release."""
    tree = patched_tree(release)
    names = ["stock", *(patch.name for patch in order.read(release))]
    for name, commit in zip(names, prove.commits_of(tree), strict=True):
        yield name, release, tree, commit


def by_release(found: list[Release], *, stock: bool = False) -> Iterator[Step]:
    """Releases, patched or ``stock``."""
    for release in found:
        tree = patched_tree(release)
        yield release.name, release, tree, prove.commits_of(tree)[0 if stock else -1]


def first_change(steps: Iterable[Step], case: str, *, every: bool = False) -> tuple[Verdict, Verdict] | None:
    """The verdicts before and after the first step that changes a case's; None when none does.

    ``every`` judges all steps, also after a change. The interpreter must have vLLM's dependencies.
    """
    before = first = None
    for name, release, tree, commit in steps:
        with prove.worktrees(release, tree, 1) as free:
            clone = free.get()
            prove.check_out(clone, commit)
            verdict = judge(clone, case, name)
        console.note(f"  {'pass' if verdict.passed else 'FAIL'}  {verdict.right}/{verdict.all}  {name}")
        if first is None and before is not None and before.passed != verdict.passed:
            first = before, verdict
            if not every:
                break
        before = verdict
    return first


def judge(tree: Path, case: str, step: str) -> Verdict:
    """Run one case on a tree, by all surfaces and schedules."""
    with files.scratch(paths.build_dir()) as folder:
        result = folder / "result.json"
        command = [sys.executable, "-m", "conformance", str(tree), "--case", case]
        command += ["--jobs", "1", "--failures", "0", "--json", str(result)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        try:
            done = subprocess.run(
                command, cwd=paths.project_root() / "tests/lanes", env=environment,
                capture_output=True, text=True, timeout=CASE_TIMEOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise PatchsetError(f"{case} on {step}: no end after {CASE_TIMEOUT} s") from error
        if done.returncode == 2:
            raise UsageError(
                f"{case!r}: {done.stderr.strip()[-200:]}", "nox -s conformance -- --list shows the cases"
            )
        if done.returncode not in (0, 1) or not result.is_file():
            raise PatchsetError(f"{case} could not be judged on {step}: {done.stderr.strip()[-2000:]}")
        target = json.loads(result.read_text(encoding="utf-8"))["targets"][0]
    return Verdict(step, target["right"], target["all"])
