# SPDX-License-Identifier: Apache-2.0
"""Proofs: each must fail without its patch, and pass on the whole series.

A proof is *red* by an assertion of its own; any other end (an import that fails, a
crash, a time limit) is an *error* and proves nothing. The proof of a patch that
upstream has taken must pass on the stock tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from patchset import console, files, git, paths
from patchset.errors import UsageError
from patchset.release import Release
from patchset.series.apply import ENTRY, STOCK_REF, patched_tree, select
from patchset.series.read import read, taken_proofs

Item = TypeVar("Item")
Shown = TypeVar("Shown")

#: Bound of one run, in seconds; an import of vLLM takes five to twenty.
TIMEOUT = 600

#: Set when nobody waits for proofs any more; those at work look so often, in seconds.
_over = threading.Event()
_LOOK = 0.2


@dataclass(frozen=True, eq=False)
class Run:
    """Proofs on the tree of one commit, in one process: (patch, path) of each."""

    proofs: Sequence[tuple[str, str]]
    stage: str
    expected: str
    commit: str


@dataclass(frozen=True)
class Verdict:
    """What one run of one proof showed: "red", "green" or "error"."""

    release: str
    patch: str
    stage: str
    expected: str
    seen: str
    output: str

    @property
    def right(self) -> bool:
        """Whether the proof shows what it must."""
        return self.expected == self.seen

    def __str__(self) -> str:
        word = "ok" if self.right else "WRONG"
        words = f"{word:6}{self.release} {self.patch}, {self.stage}: {self.seen}"
        return words if self.right else f"{words}, expected {self.expected}"


def prove(
    release: Release, *, only: Sequence[str] = (), jobs: int = 2
) -> list[Verdict]:
    """Run the proofs of a release with this interpreter, which must have its needs.

    ``only`` names the patches to prove. Without it, the proofs that the stock tree must
    pass run as well.
    """
    patches = read(release).patches
    others = select(patches, None, only)
    chosen = [patch for patch in patches if not only or patch not in others]
    tree = patched_tree(release)
    commits = commits_of(tree)
    stock, head = (git.text(tree, "rev-parse", ref) for ref in (STOCK_REF, "HEAD"))
    runs, every = [], []
    for patch in chosen:
        proofs = [(patch.name, proof) for proof in patch.proofs]
        every += proofs
        runs.append(Run(proofs, "without it", "red", f"{commits[patch.entry]}^"))
    if chosen:  # first, because it takes longest
        runs.insert(0, Run(every, "whole series", "green", head))
    taken = [(Path(path).stem, path) for path in taken_proofs(release)]
    if taken and not only:
        runs.append(Run(taken, "stock", "green", stock))
    found = []
    with worktrees(release, tree, jobs) as free:
        console.note(f"  {len(every)} proofs in {len(runs)} runs, {jobs} at once")
        ended = _each(jobs, partial(_run, free, release), runs)
        for number, (_, verdicts) in enumerate(ended, start=1):
            for verdict in verdicts:
                console.note(f"{verdict} ({number}/{len(runs)})")
            found += verdicts
    return found


def commits_of(tree: Path) -> dict[str, str]:
    """The commit of each patch of a patched tree, by its line in the series."""
    form = f"--format=%H %(trailers:key={ENTRY},valueonly,separator=%x20)"
    lines = git.text(tree, "log", form, f"{STOCK_REF}..HEAD").split("\n")
    pairs = (line.split(" ", 1) for line in lines if " " in line)
    return {entry.strip(): commit for commit, entry in pairs}


def on_tree(tree: Path, proofs: Sequence[str], jobs: int) -> dict[str, tuple[str, str]]:
    """What proofs show on a tree as it is, each in a process of its own."""
    root = paths.project_root()
    found = {}

    def shown(proof: str) -> tuple[str, str]:
        return _shown(tree, [root / proof], "")[root / proof]

    for number, (proof, seen) in enumerate(_each(jobs, shown, proofs), start=1):
        found[proof] = seen
        console.note(f"  {proof}: {seen[0]} ({number}/{len(proofs)})")
    return found


def _each(
    jobs: int, act: Callable[[Item], Shown], items: Iterable[Item]
) -> Iterator[tuple[Item, Shown]]:
    """Results as they come, of threads; after Ctrl-C those at work end, and no more begin."""
    _over.clear()
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(act, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        _over.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def worktrees(release: Release, tree: Path, count: int) -> Iterator[SimpleQueue[Path]]:
    """Clones of the patched tree to check prefixes out in, kept for the next time."""
    folder = paths.build_dir() / "proofs" / release.name
    free: SimpleQueue[Path] = SimpleQueue()
    with files.lock(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files.remove_temp(folder)
        for number in range(count):
            clone = folder / str(number)
            if not clone.is_dir():
                with files.atomic_folder(clone) as temp:
                    git.run(temp, "clone", "--quiet", "--local", str(tree), ".")
            (clone / ".git" / "index.lock").unlink(missing_ok=True)
            git.run(clone, "fetch", "--quiet", str(tree), "HEAD")
            free.put(clone)
        yield free


def _run(free: SimpleQueue[Path], release: Release, run: Run) -> list[Verdict]:
    root = paths.project_root()
    for name, proof in run.proofs:
        if not (root / proof).is_file():
            what = f"{name}: its proof {proof} does not exist"
            raise UsageError(what, "write it before the patch")
    places = sorted({root / proof for _, proof in run.proofs})
    clone = free.get()
    names = list(dict.fromkeys(name for name, _ in run.proofs))
    what = names[0] if len(names) == 1 else f"{len(names)} patches"
    console.note(f"  begin {what}, {run.stage}: {len(places)} proofs")
    try:
        check_out(clone, run.commit)
        shown = _shown(clone, places, release.name)
        if len(places) > 1:
            # Together, one file may have broken another: ask the others alone.
            for place in places:
                if shown[place][0] != run.expected:
                    shown |= _shown(clone, [place], release.name)
    finally:
        free.put(clone)
    return [
        Verdict(
            release.name,
            f"{name} ({Path(proof).stem})",
            run.stage,
            run.expected,
            *shown[root / proof],
        )
        for name, proof in run.proofs
    ]


def check_out(clone: Path, commit: str) -> None:
    """Check a commit out; a .pyc knows its source by second and size alone, so goes."""
    before = git.text(clone, "rev-parse", "HEAD")
    listed = git.text(clone, "diff", "--name-only", "--no-renames", before, commit)
    git.run(clone, "checkout", "--quiet", "--force", "--detach", commit)
    for source in map(clone.joinpath, listed.split("\n")):
        for stale in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            stale.unlink()


def _shown(tree: Path, proofs: list[Path], release: str) -> dict[Path, tuple[str, str]]:
    """What each proof shows on a tree, and what it printed."""
    from patchset import outcomes  # pytest, which the other commands do without

    command = [sys.executable, "-m", "pytest", "-q", "--tb=short"]
    command += ["-p", "no:cacheprovider", "-p", outcomes.__name__]
    command += [*(["-x"] if len(proofs) == 1 else []), *map(str, proofs)]
    tests = str(paths.project_root() / "tests")
    found = {}
    with files.scratch(paths.build_dir()) as folder:
        place = folder / "outcomes.json"
        own = {outcomes.VARIABLE: str(place), outcomes.TESTS: tests}
        done = run_in_tree(
            command, tree, proofs[0].parent, {**own, "VLLM_RELEASE": release}
        )
        # 0: all passed; 1: some failed. Other statuses (no tests, errors in
        # collecting) show nothing.
        if done.returncode in (0, 1) and place.is_file():
            found = json.loads(place.read_text(encoding="utf-8"))
    return {proof: (found.get(str(proof), "error"), done.stdout) for proof in proofs}


def run_in_tree(
    command: list[str], tree: Path, folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program of this interpreter against a vLLM tree, for ``TIMEOUT`` at most.

    Raises:
        CancelledError: nobody waits for it any more.
    """
    environment = {**os.environ, **variables, "VLLM_TREE": str(tree)}
    environment["VLLM_LOGGING_LEVEL"] = "ERROR"
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    output, end = None, time.monotonic() + TIMEOUT
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        while output is None and time.monotonic() < end and not _over.is_set():
            with suppress(subprocess.TimeoutExpired):
                output = child.communicate(timeout=_LOOK)[0]
        if output is None:
            child.kill()
    if _over.is_set():
        raise CancelledError
    output = f"no end after {TIMEOUT} s" if output is None else output
    return subprocess.CompletedProcess(command, child.returncode, output)
