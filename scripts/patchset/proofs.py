# SPDX-License-Identifier: Apache-2.0
"""Proofs: each must fail without its patch, and pass on the whole series.

A proof is *red* by an assertion of its own; any other end (an import that fails, a
crash, a time limit) is an *error* and proves nothing. The proof of a patch that
upstream has taken must pass on the stock tree. Tests of our own modules run with the
proofs of the whole series, which have imported what they need.
"""

import gc
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from patchset import console, files, git, paths
from patchset.errors import UsageError
from patchset.release import Release
from patchset.series.apply import patched_tree
from patchset.series.commits import read_commits
from patchset.series.read import read_series, taken_proofs
from patchset.series.state import STOCK_REF

#: Bound of one run, in seconds; an import of vLLM takes five to twenty.
TIMEOUT = 600
#: Tests of our own modules; a file is skipped where the release has no such module.
MODULES = "tests/patches/modules"
#: Runs at once; each takes a core and 2 GB.
AT_ONCE = 2

#: Packages that take most of the time of importing vLLM. No tree changes them.
PRELOADED = (
    "torch._inductor.lowering",
    "torch._inductor.standalone_compile",
    "transformers.processing_utils",
    "mistral_common.tokens.tokenizers.base",
    "openai.types.responses",
    "fastapi.applications",
    "hypothesis.strategies",
    "xgrammar",
)
#: Each run is forked from a process that has imported them.
_context = multiprocessing.get_context("forkserver")

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
    """What one run of one proof showed: "red", "green", "skipped" or "error"."""

    release: str
    patch: str
    proof: str
    stage: str
    expected: str
    seen: str
    output: str

    @property
    def right(self) -> bool:
        """Whether the proof shows what it must."""
        skipped = self.seen == "skipped" and self.proof.startswith(f"{MODULES}/")
        return skipped or self.expected == self.seen

    def __str__(self) -> str:
        word = "ok" if self.right else "WRONG"
        what = f"{self.patch} ({Path(self.proof).stem})"
        words = f"{word:6}{self.release} {what}, {self.stage}: {self.seen}"
        return words if self.right else f"{words}, expected {self.expected}"


def prove(release: Release, *, only: Sequence[str] = ()) -> list[Verdict]:
    """Run the proofs of a release with this interpreter, which must have its needs.

    ``only`` names the patches to prove. Without it, the proofs that the stock tree must
    pass and the tests of our modules run as well.
    """
    patches = read_series(release).patches
    names = [patch.name for patch in patches]
    if unknown := set(only).difference(names):
        known = f"the series has {', '.join(names)}"
        raise UsageError(f"no patch is called {', '.join(sorted(unknown))}", known)
    chosen = [patch for patch in patches if not only or patch.name in only]
    tree = patched_tree(release)
    commits = read_commits(tree).commits.values()
    runs, every = [], []
    for patch, commit in zip(patches, commits, strict=True):
        if patch not in chosen:
            continue
        proofs = [(patch.name, proof) for proof in patch.proofs]
        every += proofs
        runs.append(Run(proofs, "without it", "red", f"{commit}^"))
    if not only:
        tests = sorted((paths.project_root() / MODULES).glob("test_*.py"))
        every += [("our modules", f"{MODULES}/{test.name}") for test in tests]
    if every:  # first, because it takes longest
        runs.insert(0, Run(every, "whole series", "green", "HEAD"))
    taken = [(Path(path).stem, path) for path in taken_proofs(release)]
    if taken and not only:
        runs.append(Run(taken, "stock", "green", STOCK_REF))
    return show(tree, release.name, runs)


def show(tree: Path, release: str, runs: Sequence[Run]) -> list[Verdict]:
    """Return what proofs show on commits of a tree, ``AT_ONCE`` runs at once.

    After Ctrl-C those at work end, and no more begin.
    """
    found: list[Verdict] = []
    free: SimpleQueue[Path] = SimpleQueue()
    console.note(f"  {len(runs)} runs of proofs, {AT_ONCE} at once")
    _over.clear()
    _context.set_forkserver_preload(list(PRELOADED))
    with (
        files.scratch(paths.build_dir()) as folder,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        for number in range(min(AT_ONCE, len(runs))):
            place = folder / str(number)
            git.run(folder, "clone", "--quiet", str(tree), place.name)
            free.put(place)
        try:
            begun = [pool.submit(_run, free, tree, release, run) for run in runs]
            for number, future in enumerate(as_completed(begun), start=1):
                for verdict in future.result():
                    console.note(f"{verdict} ({number}/{len(runs)})")
                    found.append(verdict)
        except BaseException:
            _over.set()
            pool.shutdown(cancel_futures=True)
            raise
    return found


def _run(free: SimpleQueue[Path], tree: Path, release: str, run: Run) -> list[Verdict]:
    root = paths.project_root()
    places = sorted({root / proof for _, proof in run.proofs})
    clone = free.get()
    names = list(dict.fromkeys(name for name, _ in run.proofs))
    what = names[0] if len(names) == 1 else f"{len(names)} patches"
    console.note(f"  begin {what}, {run.stage}: {len(places)} proofs")
    try:
        _check_out(clone, git.text(tree, "rev-parse", run.commit))
        shown = _shown(clone, places, release)
        if len(places) > 1:
            # Together, one file may have broken another: ask the others alone.
            for place in places:
                if shown[place][0] not in (run.expected, "skipped"):
                    shown |= _shown(clone, [place], release)
    finally:
        free.put(clone)
    return [
        Verdict(release, name, proof, run.stage, run.expected, *shown[root / proof])
        for name, proof in run.proofs
    ]


def _check_out(clone: Path, commit: str) -> None:
    """Check a commit out; a .pyc knows its source by second and size alone, so goes."""
    before = git.text(clone, "rev-parse", "HEAD")
    listed = git.text(clone, "diff", "--name-only", "--no-renames", before, commit)
    git.run(clone, "checkout", "--quiet", "--force", "--detach", commit)
    for source in map(clone.joinpath, listed.split("\n")):
        for stale in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            stale.unlink()


def _shown(tree: Path, proofs: list[Path], release: str) -> dict[Path, tuple[str, str]]:
    """Return what each proof shows on a tree, and what it printed.

    Raises:
        CancelledError: nobody waits for it any more.
    """
    from patchset import outcomes  # pytest, which the other commands do without

    words = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", outcomes.__name__]
    words += [*(["-x"] if len(proofs) == 1 else []), *map(str, proofs)]
    found = {}
    with files.scratch(paths.build_dir()) as folder:
        place = folder / "outcomes.json"
        variables = {
            outcomes.VARIABLE: str(place),
            "VLLM_RELEASE": release,
            "VLLM_TREE": str(tree),
            "VLLM_LOGGING_LEVEL": "ERROR",
        }
        log = folder / "log"
        log.touch()
        told = (words, proofs[0].parent, dict(os.environ) | variables, log)
        child = _context.Process(target=_pytest, args=told)
        child.start()
        end = time.monotonic() + TIMEOUT
        while child.is_alive() and time.monotonic() < end and not _over.is_set():
            child.join(_LOOK)
        status = child.exitcode
        child.kill()
        child.join()
        if _over.is_set():
            raise CancelledError
        output = log.read_text(encoding="utf-8", errors="replace")
        if status is None:
            output = f"no end after {TIMEOUT} s"
        # 0: all passed; 1: some failed. Other statuses (no tests, errors in
        # collecting) show nothing.
        if status in (0, 1) and place.is_file():
            found = json.loads(place.read_text(encoding="utf-8"))
    return {proof: (found.get(str(proof), "error"), output) for proof in proofs}


def _pytest(
    words: list[str], folder: Path, environment: dict[str, str], log: Path
) -> None:
    """Run pytest in this process, which was forked for it, and end the process."""
    with log.open("wb") as stream:
        for descriptor in (1, 2):
            os.dup2(stream.fileno(), descriptor)
    os.environ.clear()  # of the time when the first run began
    os.environ.update(environment)
    os.chdir(folder)
    # The collector would look through what is inherited, and often through all of vLLM.
    gc.freeze()
    gc.set_threshold(100_000)
    import pytest

    sys.exit(pytest.main(words))
