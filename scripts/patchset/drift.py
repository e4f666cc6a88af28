# SPDX-License-Identifier: Apache-2.0
"""A series tried on a newer source: for a job that runs on a schedule."""

import re
from pathlib import Path

from patchset import console, files, git, paths, process, proofs
from patchset.errors import UnavailableError, hide, tail
from patchset.inputs import index, pin
from patchset.release import VERSION, Release, read_pin
from patchset.series.apply import (
    ENTRY,
    Stopped,
    am,
    clone,
    patched_tree,
    stopped_message,
)
from patchset.series.commits import mails_of
from patchset.series.mail import Patch
from patchset.series.read import Series, read_series
from patchset.series.rebase import port_base, unmerged
from patchset.series.state import STOCK_REF
from patchset.series.stock_tree import stock_tree

#: Where a branch, tag or commit is looked up unless a remote is named.
UPSTREAM = "https://github.com/vllm-project/vllm"

_RELEASE = re.compile(f"v?{VERSION}")


def drift(
    target: str | None,
    release: Release,
    *,
    remote: str | None = None,
    prove: bool = True,
) -> list[str]:
    """Try the series of ``release`` on a source; what is to be done, line by line.

    ``target`` is a release (the newest on the index without it), or a git ref of
    ``remote``. Nothing is kept but downloads and source trees.
    """
    hide(remote or "")
    series = read_series(release)
    with files.scratch(paths.build_dir()) as place:
        name, stock = _stock(target or _newest(), place, remote or UPSTREAM)
        patched = patched_tree(release)
        work = place / "work"
        work.mkdir()
        clone(stock, work)
        with console.step(f"try the series of {release.name} on {name}"):
            faults, merged = _try(work, series, patched, name)
        if prove:
            faults += _proofs(work, series, merged)
    console.result(*faults)
    verdict = f"{len(faults)} to do" if faults else "it fits"
    console.result(f"series of {release.name} on {name}: {verdict}")
    if faults:
        console.note("next: nox -s rebase, as docs/rebasing.md says")
    return faults


def _try(
    work: Path, series: Series, patched: Path, name: str
) -> tuple[list[str], list[Patch]]:
    """Merge each patch, and leave out those that conflict: faults, and what went in."""
    version = name.removeprefix("v") if _RELEASE.fullmatch(name) else "0"
    new = series.release.model_copy(update={"name": name, "version": version})
    conflicts: dict[str, str] = {}
    mails: bytes | None = mails_of(patched, port_base(work, new, series, patched))
    option = "--3way"
    while True:
        try:
            am(work, mails, new.source_date_epoch, option)
            break
        except Stopped:
            _, entry = stopped_message(work)
            conflicts[entry] = ", ".join(unmerged(work)) or "see git am"
            mails, option = None, "--skip"
    form = f"--format=%(trailers:key={ENTRY},valueonly,separator=%x20)"
    there = git.text(work, "log", form, f"{STOCK_REF}..HEAD").split()
    faults, merged = [], []
    for patch in series.patches:
        if patch.name in conflicts:
            word = "conflicts"
            faults.append(f"{patch.name} conflicts in {conflicts[patch.name]}")
        elif patch.name in there:
            word = "fits"
            merged.append(patch)
        else:
            word = "is already present"
            faults.append(f"{patch.name} is already present; it may be dropped")
        console.result(f"{word:18} {patch.name}")
    return faults, merged


def _proofs(work: Path, series: Series, merged: list[Patch]) -> list[str]:
    """Run proofs: green with the series, not green on the stock source."""
    own = [(patch.name, proof) for patch in merged for proof in patch.proofs]
    runs = [
        proofs.Run(own, "with the series", "green", "HEAD"),
        proofs.Run(own, "on the stock source", "red", STOCK_REF),
    ]
    runs = [run for run in runs if run.proofs]
    verdicts = proofs.show(work, series.release.name, runs)
    faults = [
        f"{verdict.proof} is {verdict.seen} {verdict.stage}: "
        f"{process.end_of(verdict.output)}"
        for verdict in verdicts
        if verdict.expected == "green" and not verdict.right
    ]
    needed = {v.patch for v in verdicts if v.expected == "red" and v.seen != "green"}
    return faults + [
        f"{patch.name} may be dropped: its proofs pass on the stock source"
        for patch in merged
        if patch.name not in needed
    ]


def _newest() -> str:
    offered = pin.sdists(index.Index().files(pin.PROJECT))
    final = [v for v in offered if not (v.is_prerelease or v.is_postrelease)]
    if not final:
        raise UnavailableError(
            f"the package index has no source archive of {pin.PROJECT}",
            "check pip's index: pip config list",
        )
    return f"v{max(final)}"


def _stock(target: str, place: Path, remote: str) -> tuple[str, Path]:
    if _RELEASE.fullmatch(target):
        name = pin.full_name(target)
        file = pin.file(name)
        if not file.is_file():
            file = place / name / file.name
            files.write_text(file, pin.text(name))
        return name, stock_tree(read_pin(file))
    stock = place / "stock"
    git.run(place, "init", "--quiet", stock.name)
    where = str(Path(remote).resolve()) if Path(remote).is_dir() else remote
    with console.step(f"fetch {target} from {remote}"):
        fetch = ("fetch", "--quiet", "--depth=1", "--", where, target)
        try:
            git.run(stock, *fetch)
        except git.GitError as error:
            raise UnavailableError(
                f"cannot fetch {target} from {remote}: {tail(error.stderr, 300)}",
                "--remote names another repository: an address, or a folder",
            ) from error
    git.run(stock, "reset", "--quiet", "--hard", "FETCH_HEAD")
    return f"{remote} {target}", stock
