# SPDX-License-Identifier: Apache-2.0
"""Each patch's proofs: red on the series up to the patch, green with it, green on the whole series.

Red is a failure of the proof's own assertion; an error (an import that fails, a fixture, a crash) proves nothing.
A patch may have several proofs, and several patches one. A patch that upstream has taken leaves its proof in the list
of those that must pass on the stock tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from patchset import console, files, git, paths
from patchset.errors import UsageError
from patchset.release import Release
from patchset.series import order, upstreamed
from patchset.series.apply import STOCK_REF, patched_tree, select

#: How long one run may take, in seconds; an import of vLLM takes five to twenty.
PROOF_TIMEOUT = 600

#: Set where nobody waits for proofs any more; those at work look at it so often, in seconds.
_over = threading.Event()
_LOOK = 0.2


class _Run(NamedTuple):
    """Some proofs on the tree of one commit, in one process: (patch, path in the checkout) of each."""

    proofs: list[tuple[str, str]]
    stage: str
    expected: str
    commit: str


@dataclass(frozen=True)
class Verdict:
    """What one run of one proof showed: ``expected`` and ``seen`` are "red", "green" or "error"."""

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


def prove(
    release: Release,
    *,
    only: Sequence[str] = (),
    every_prefix: bool = False,
    jobs: int = 2,
    on_verdict: Callable[[Verdict], None],
) -> None:
    """Run the proofs of a release's patches with this interpreter, which must have vLLM's dependencies.

    ``only`` names the patches to prove (all without it). ``every_prefix`` runs the green check also on the
    series that ends at the patch; without it the whole series stands for all of them. The proofs that the
    stock tree must pass are run as well, unless ``only`` names patches.
    """
    patches = order.read(release)
    others = select(patches, None, only)
    chosen = [patch for patch in patches if not only or patch not in others]
    taken = [(Path(proof).stem, proof) for proof in upstreamed.proofs(release)] if not only else []
    if not chosen and not taken:
        return
    tree = patched_tree(release)
    commits = commits_of(tree)
    runs = [_Run(taken, "stock", "green", commits[0])] if taken else []
    every = []
    for patch, before, after in zip(patches, commits, commits[1:], strict=False):
        if patch in chosen:
            proofs = [(patch.name, proof) for proof in patch.header.proofs]
            every += proofs
            runs.append(_Run(proofs, "without it", "red", before))
            if every_prefix:
                runs.append(_Run(proofs, "with it", "green", after))
    # One process imports vLLM once for all of them; a proof that is not green there is told apart by its own run.
    if chosen:
        runs.append(_Run(every, "whole series", "green", commits[-1]))
    # The one with all proofs takes longest: begun last, it would run alone.
    runs.sort(key=lambda run: (-len(run.proofs), commits.index(run.commit)))
    with worktrees(release, tree, jobs) as free, workers(jobs) as pool:
        futures = [pool.submit(_run, free, release, run) for run in runs]
        with console.progress(f"proofs of {release.name}", len(runs), unit="runs") as advance:
            for future in futures:
                for verdict in future.result():
                    on_verdict(verdict)
                advance(1)


def proof_on(tree: Path, proof: str) -> tuple[str, str]:
    """One proof on a tree as it stands: "green", "red" or "error", and what it printed."""
    place = paths.project_root() / proof
    return _shown(tree, [place], "")[place]


def commits_of(tree: Path) -> list[str]:
    """The commits of a patched tree: of the stock tree, then of each patch."""
    series = git.text(tree, "rev-list", "--reverse", f"{STOCK_REF}..HEAD").split()
    return [git.text(tree, "rev-parse", STOCK_REF), *series]


@contextmanager
def workers(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run proofs; after Ctrl-C or an error the proofs at work end, and no other begins."""
    _over.clear()
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    except BaseException:
        _over.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def worktrees(release: Release, tree: Path, count: int) -> Iterator[SimpleQueue[Path]]:
    """Clones of the patched tree to check the prefixes out in, kept for the next time."""
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


def _run(free: SimpleQueue[Path], release: Release, run: _Run) -> list[Verdict]:
    for name, proof in run.proofs:
        if not (paths.project_root() / proof).is_file():
            raise UsageError(f"{name}: its proof {proof} does not exist", "write it before the patch")
    places = sorted({paths.project_root() / proof for _, proof in run.proofs})
    clone = free.get()
    try:
        check_out(clone, run.commit)
        shown = _shown(clone, places, release.name)
        if len(places) > 1:
            # Together, one file may have broken another: each that is not green is asked again alone.
            for place in places:
                if shown[place][0] != "green":
                    shown |= _shown(clone, [place], release.name)
    finally:
        free.put(clone)
    several = len({proof for _, proof in run.proofs}) > len({name for name, _ in run.proofs})
    verdicts = []
    for name, proof in run.proofs:
        called = f"{name} ({Path(proof).stem})" if several else name
        seen = shown[paths.project_root() / proof]
        verdicts.append(Verdict(release.name, called, run.stage, run.expected, *seen))
    return verdicts


def check_out(clone: Path, commit: str) -> None:
    """Check a commit out; the bytecode of what changed goes, for a .pyc knows a source by second and size only."""
    before = git.text(clone, "rev-parse", "HEAD")
    changed = git.text(clone, "diff", "--name-only", "--no-renames", before, commit).split("\n")
    git.run(clone, "checkout", "--quiet", "--force", "--detach", commit)
    for path in changed:
        source = clone / path
        for stale in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            stale.unlink()


def _shown(tree: Path, proofs: list[Path], release: str) -> dict[Path, tuple[str, str]]:
    """What each proof shows on a tree, and what it printed."""
    from patchset.proofs import outcomes  # pytest, which the other commands do without

    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", outcomes.__name__, *(["-x"] if len(proofs) == 1 else []), *map(str, proofs)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"VLLM_TREE": str(tree), "VLLM_RELEASE": release, "VLLM_LOGGING_LEVEL": "ERROR"}
    output, found, end = None, {}, time.monotonic() + PROOF_TIMEOUT
    with files.scratch(paths.build_dir()) as folder:
        place = folder / "outcomes.json"
        environment |= {outcomes.VARIABLE: str(place), outcomes.TESTS: str(paths.project_root() / "tests")}
        where, pipe = proofs[0].parent, subprocess.PIPE
        with subprocess.Popen(
            command, cwd=where, env=environment, text=True, stdout=pipe, stderr=subprocess.STDOUT
        ) as child:
            while output is None and time.monotonic() < end and not _over.is_set():
                with suppress(subprocess.TimeoutExpired):
                    output = child.communicate(timeout=_LOOK)[0]
            if output is None:
                child.kill()
        # All passed (0), some failed (1); after other statuses (no tests, errors in collecting) nothing is shown.
        if child.returncode in (0, 1) and place.is_file():
            found = json.loads(place.read_text(encoding="utf-8"))
    if _over.is_set():
        raise CancelledError
    output = f"no end after {PROOF_TIMEOUT} s" if output is None else output
    return {proof: (found.get(str(proof), "error"), output) for proof in proofs}
