# SPDX-License-Identifier: Apache-2.0
"""Whether a series still fits a source that upstream made since: for a job that runs on a schedule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion

from patchset import console, files, git, paths
from patchset.errors import UnavailableError, UsageError
from patchset.inputs import index, pin
from patchset.proofs import prove
from patchset.rebase import port
from patchset.rebase.port import Ported, Status
from patchset.release import Release
from patchset.release import read as read_pin
from patchset.series import order, upstreamed
from patchset.series.apply import STOCK_REF, patched_tree
from patchset.series.stock_tree import stock_tree

#: Where a branch, tag or commit is looked up unless a remote is named.
UPSTREAM = "https://github.com/vllm-project/vllm"

_RELEASE = re.compile(r"^v?\d+(\.\d+)+$")
_REF = re.compile(r"^[0-9A-Za-z][0-9A-Za-z._/-]*$")


@dataclass(frozen=True)
class Drift:
    """What became of a series on ``source``. ``on_stock``: what each proof shows on the stock tree ("green", "red" or
    "error"), by the proof's path; ``must_pass`` those that were green on the series' own release."""

    source: str
    series: str
    outcomes: list[Ported]
    on_stock: dict[str, str]
    must_pass: list[str]

    def faults(self) -> list[str]:
        """What somebody has to do something about, one line each."""
        found = []
        for patch, outcome in self.outcomes:
            proofs = patch.header.proofs
            if outcome.status is Status.CONFLICT:
                found.append(f"{patch.name} conflicts in {', '.join(outcome.conflicts)}")
            elif outcome.status is Status.DROPPED:
                found.append(f"{patch.name} is already present: {outcome.note}")
            elif proofs and all(self.on_stock.get(proof) == "green" for proof in proofs):
                words = f"its proof {proofs[0]} passes" if len(proofs) == 1 else "all its proofs pass"
                found.append(f"{patch.name} may be dropped: {words} without it")
        for proof in self.must_pass:
            if self.on_stock.get(proof, "green") != "green":
                found.append(f"{proof} does not pass on the stock tree, as it did on {self.series}'s")
        return found


def drift(
    target: str | None, release: Release, *, remote: str = UPSTREAM, proofs: bool = True, jobs: int = 2
) -> Drift:
    """Try the series of ``release`` on a source: a release, a folder with a source tree, or a ref of ``remote``.

    Without a target it is the newest release on the package index. ``proofs`` runs them on the stock tree, with
    this interpreter, which must have vLLM's dependencies. Nothing is kept but downloads and source trees.
    """
    patches = order.read(release)
    taken = upstreamed.proofs(release)
    on_stock = {}
    with files.scratch(paths.build_dir()) as place:
        source, stock = _stock(_newest() if target is None else target, place, remote)
        patched = patched_tree(release)
        work = place / "work"
        work.mkdir()
        port.work_repository(work, stock, patched)
        with console.step(f"try the series of {release.name} on {source}"):
            version = source.removeprefix("v") if _RELEASE.match(source) else None
            outcomes = port.port_series(work, patches, version)
        if proofs:
            git.run(work, "checkout", "--quiet", "--force", "--detach", STOCK_REF)
            asked = sorted({proof for patch in patches for proof in patch.header.proofs} | set(taken))
            with (
                prove.workers(jobs) as pool,
                console.progress("proofs on the stock tree", len(asked), unit="proofs") as advance,
            ):
                shown = pool.map(lambda proof: prove.proof_on(work, proof), asked)
                for proof, (seen, _) in zip(asked, shown, strict=True):
                    on_stock[proof] = seen
                    advance(1)
    return Drift(source, release.name, outcomes, on_stock, taken)


def _newest() -> str:
    """The newest final release of vLLM on the package index that has a source archive."""
    found = []
    for link in index.Index().files(pin.PROJECT):
        try:
            _, version = parse_sdist_filename(link.name)
        except (InvalidSdistFilename, InvalidVersion):
            continue
        if not (version.is_prerelease or version.is_postrelease):
            found.append(version)
    if not found:
        raise UnavailableError(f"the package index has no source archive of {pin.PROJECT}")
    return f"v{max(found)}"


def _stock(target: str, place: Path, remote: str) -> tuple[str, Path]:
    """What the target is called, and its source as a git repository of one commit."""
    folder, stock = Path(target), place / "stock"
    if folder.is_dir():
        if not (folder / "vllm").is_dir():
            raise UsageError(f"{folder.resolve()} is not a source tree of vLLM: it has no folder vllm/")
        git.run(place, "init", "--quiet", "stock")
        # A copy; what its own .gitignore names is left out.
        git.run(stock, f"--work-tree={folder.resolve()}", "add", "--all")
        git.run(stock, "commit", "--quiet", "--no-verify", "-m", f"source in {folder}")
        git.run(stock, "reset", "--quiet", "--hard", "HEAD")
        return target, stock
    if _RELEASE.match(target):
        name, text = pin.draft(target)
        files.write_text(place / name / "release.toml", text)
        return name, stock_tree(read_pin(place / name / "release.toml"))
    if not _REF.match(target):
        raise UsageError(
            f"{target!r} is not a release, a folder or a git ref", "such as v0.34.0, ../vllm or main"
        )
    git.run(place, "init", "--quiet", "stock")
    with console.step(f"fetch {target} from {remote}"):
        try:
            git.run(stock, "fetch", "--quiet", "--depth=1", "--", remote, target)
        except git.GitError as error:
            raise UnavailableError(
                f"{remote} does not give {target}: {error.stderr.strip()[-300:]}",
                "--remote URL names another one; a folder with a checkout does as well",
            ) from error
    git.run(stock, "reset", "--quiet", "--hard", "FETCH_HEAD")
    return f"{remote} {target}", stock
