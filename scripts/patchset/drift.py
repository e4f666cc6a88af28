# SPDX-License-Identifier: Apache-2.0
"""A series tried on a newer source: for a job that runs on a schedule."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion

from patchset import console, files, git, paths, proofs
from patchset.errors import UnavailableError, UsageError
from patchset.inputs import index, pin
from patchset.release import Release
from patchset.release import read as read_pin
from patchset.series.apply import (
    STOCK_REF,
    Stopped,
    clone,
    go_on,
    patched_tree,
    stopped_message,
)
from patchset.series.mail import Patch
from patchset.series.read import Series, read, taken_proofs
from patchset.series.rebase import port, port_base, unmerged
from patchset.series.stock_tree import stock_tree

#: Where a branch, tag or commit is looked up unless a remote is named.
UPSTREAM = "https://github.com/vllm-project/vllm"

#: Bound of a fetch, in seconds.
_FETCH = 900.0

_RELEASE = re.compile(r"v?\d+(\.\d+)+")
_REF = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*")

#: Imports the modules that the arguments name; prints a line for each that fails.
_IMPORT = """\
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        words = " ".join(str(error).split())[:300]
        print(f"@failed {name} {type(error).__name__}: {words}", flush=True)
print("@end", flush=True)
"""


def drift(
    target: str | None,
    release: Release,
    *,
    remote: str | None = None,
    prove: bool = True,
    jobs: int = 2,
) -> list[str]:
    """Try the series of ``release`` on a source; what is to be done, line by line.

    ``target`` is a release (the newest on the index without it), a folder, or a git ref
    of ``remote``. Nothing is kept but downloads and source trees.
    """
    series = read(release)
    with files.scratch(paths.build_dir()) as place:
        name, stock = _stock(target or _newest(), place, remote or UPSTREAM)
        patched = patched_tree(release)
        work = place / "work"
        work.mkdir()
        clone(stock, work)
        with console.step(f"try the series of {release.name} on {name}"):
            faults, merged = _try(work, series, patched, name)
        if prove:
            faults += _imports(work, series)
            faults += _proofs(work, series, merged, jobs)
    console.result(*faults)
    verdict = f"{len(faults)} things to do" if faults else "it fits"
    console.result(f"series of {release.name} on {name}: {verdict}")
    if faults:
        console.note(f"next: nox -s rebase -- {name}")
    return faults


def _try(
    work: Path, series: Series, patched: Path, name: str
) -> tuple[list[str], list[Patch]]:
    """Merge each patch, and leave out those that conflict: faults, and what went in."""
    version = name.removeprefix("v") if _RELEASE.fullmatch(name) else "0"
    new = series.release.model_copy(update={"name": name, "version": version})
    conflicts: dict[str, str] = {}
    base = port_base(work, new, series, patched)
    step = None
    while True:
        try:
            if step is None:
                port(work, new, series, patched, base)
            else:
                go_on(work, step, new.source_date_epoch)
            break
        except Stopped:
            _, entry = stopped_message(work)
            conflicts[entry] = ", ".join(filter(None, unmerged(work))) or "see git am"
            step = "--skip"
    there = proofs.commits_of(work)
    faults, merged = [], []
    for patch in series.patches:
        if patch.entry in conflicts:
            word = "conflicts"
            faults.append(f"{patch.name} conflicts in {conflicts[patch.entry]}")
        elif patch.entry in there:
            word = "fits"
            merged.append(patch)
        else:
            word = "is already present"
            faults.append(f"{patch.name} is already present; it may be dropped")
        console.result(f"{word:18} {patch.name}")
    return faults, merged


def _imports(work: Path, series: Series) -> list[str]:
    """Import each module of the series; those that stock cannot import do not count."""
    modules = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in series.touched
        if path.endswith(".py") and (work / path).is_file()
    ]
    console.note(f"  import {len(modules)} modules of the series")
    failed = _failed(work, modules)
    if failed:
        here = git.text(work, "rev-parse", "HEAD")
        proofs.check_out(work, STOCK_REF)
        own = {path.removesuffix(".py").replace("/", ".") for path in series.files}
        there = _failed(work, sorted(failed.keys() - own))
        failed = {name: words for name, words in failed.items() if name not in there}
        proofs.check_out(work, here)
    return [f"{name} cannot be imported: {words}" for name, words in failed.items()]


def _failed(work: Path, modules: list[str]) -> dict[str, str]:
    """The modules of a tree that cannot be imported, and why."""
    command = [sys.executable, "-c", _IMPORT, *modules]
    done = proofs.run_in_tree(command, work, work, {"PYTHONPATH": str(work)})
    found = re.findall(r"^@failed (\S+) (.*)$", done.stdout, re.MULTILINE)
    if not done.stdout.rstrip().endswith("@end"):
        found.append((modules[0], f"Python ended: {done.stdout.strip()[-300:]}"))
    return dict(found)


def _proofs(work: Path, series: Series, merged: list[Patch], jobs: int) -> list[str]:
    """Run proofs: green with the series, not green on the stock source."""
    faults = []
    own = sorted({proof for patch in merged for proof in patch.proofs})
    console.note(f"  {len(own)} proofs with the series")
    for proof, (seen, output) in proofs.on_tree(work, own, jobs).items():
        if seen != "green":
            lines = output.strip().splitlines()
            faults.append(f"{proof} is {seen} with the series: {(lines or [''])[-1]}")
    proofs.check_out(work, STOCK_REF)
    taken = taken_proofs(series.release)
    console.note(f"  {len(own) + len(taken)} proofs on the stock source")
    stock = proofs.on_tree(work, [*own, *taken], jobs)
    for patch in merged:
        if all(stock[proof][0] == "green" for proof in patch.proofs):
            words = "its proofs pass on the stock source"
            faults.append(f"{patch.name} may be dropped: {words}")
    faults += [
        f"{proof} does not pass on the stock source, as it did on {series.release.name}"
        for proof in taken
        if stock[proof][0] != "green"
    ]
    return faults


def _newest() -> str:
    """The newest final release of vLLM on the index that has a source archive."""
    found = []
    for link in index.Index().files(pin.PROJECT):
        try:
            _, version = parse_sdist_filename(link.name)
        except (InvalidSdistFilename, InvalidVersion):
            continue
        if not (version.is_prerelease or version.is_postrelease):
            found.append(version)
    if not found:
        what = f"the package index has no source archive of {pin.PROJECT}"
        raise UnavailableError(what)
    return f"v{max(found)}"


def _stock(target: str, place: Path, remote: str) -> tuple[str, Path]:
    """The name of a source, and the source as a repository of one commit."""
    folder, stock = Path(target), place / "stock"
    if _RELEASE.fullmatch(target):
        name, text = pin.draft(target)
        files.write_text(place / name / "release.toml", text)
        return name, stock_tree(read_pin(place / name / "release.toml"))
    git.run(place, "init", "--quiet", "stock")
    if (folder / "vllm").is_dir():
        # A copy; what its own .gitignore names is left out.
        git.run(stock, f"--work-tree={folder.resolve()}", "add", "--all")
        git.run(stock, "commit", "--quiet", "--no-verify", "-m", f"source in {folder}")
        git.run(stock, "reset", "--quiet", "--hard", "HEAD")
        return target, stock
    if folder.is_dir() or not _REF.fullmatch(target):
        what = f"{target!r} is not a release, a source tree of vLLM or a git ref"
        raise UsageError(what, "such as v0.34.0, ../vllm or main")
    with console.step(f"fetch {target} from {remote}"):
        fetch = ("fetch", "--quiet", "--depth=1", "--", remote, target)
        try:
            git.run(stock, *fetch, timeout=_FETCH)
        except git.GitError as error:
            raise UnavailableError(
                f"{remote} does not give {target}: {error.stderr.strip()[-300:]}",
                "--remote URL names another one; a folder with a checkout does as well",
            ) from error
    git.run(stock, "reset", "--quiet", "--hard", "FETCH_HEAD")
    return f"{remote} {target}", stock
