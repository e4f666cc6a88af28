# SPDX-License-Identifier: Apache-2.0
"""A series ported to another release, by ``git am -3`` onto its source."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from patchset import console, files, git, paths
from patchset.errors import ConflictError, PatchsetError, UsageError
from patchset.inputs import pin
from patchset.release import Release, load, releases
from patchset.series import patched_files
from patchset.series.apply import (
    STOCK_REF,
    Stopped,
    add_files,
    am_mails,
    changes_between,
    clone,
    go_on,
    lend,
    patched_tree,
    stopped_message,
)
from patchset.series.export import Exported, exported, mails_of, same_tree
from patchset.series.mail import Patch, parse
from patchset.series.read import (
    FILES,
    TAKEN,
    Series,
    content_of,
    entries,
    entry_file,
    read,
    shared_diffs,
    taken_proofs,
)
from patchset.series.stock_tree import read_stamp, stock_tree, write_stamp


def rebase(
    name: str,
    old: str | None = None,
    *,
    resume: bool = False,
    restart: bool = False,
) -> list[str]:
    """Port a series to the release ``name``; the report, line by line.

    ``old`` names the release whose series is ported (the nearest one without it).
    ``resume`` goes on after a conflict, ``restart`` throws an earlier run away.

    Raises:
        ConflictError: git am waits at a patch that needs a decision.
    """
    if resume and restart:
        raise UsageError("--continue and --restart say opposite things")
    full = pin.full_name(name)
    tree = paths.build_dir() / "rebase" / full / "tree"
    with files.lock(tree.parent):
        files.remove_temp(tree.parent)
        if restart:
            shutil.rmtree(tree, ignore_errors=True)
        state = read_stamp(tree)
        if resume and state is None:
            what = f"no rebase to {full} is under way"
            raise UsageError(
                what, f"nox -s rebase -- {full} [--from RELEASE] begins one"
            )
        if state is not None and not resume:
            raise UsageError(
                f"a rebase of {state['old']} to {full} is under way in {tree}",
                "--continue goes on with it, --restart throws it away",
            )
        if state is None:
            _begin(full, old, tree)
        else:
            _resume(full, tree)
        report = _finish(load(full), tree)
        shutil.rmtree(tree)
    return report


def nearest(name: str) -> Release | None:
    """The newest older release that has a series, else the oldest newer one."""
    others = [other for other in releases() if other.name != name and entries(other)]
    version = Version(name.removeprefix("v"))
    below = [other for other in others if Version(other.version) < version]
    return below[-1] if below else next(iter(others), None)


def _begin(full: str, old: str | None, tree: Path) -> None:
    """Pin the release, and merge the series into its source."""
    source = load(old) if old else nearest(full)
    if source is None or source.name == full:
        raise UsageError("no other release has a series", "--from RELEASE names one")
    folder = paths.patches_dir() / full
    if not (folder / "release.toml").is_file():
        pin.make(full)
    new = load(full)
    if entries(new):
        raise UsageError(
            f"{full} has a series already",
            f"nox -s drift -- {full} --series {source.name} tries another; to replace "
            f"it, empty {new.folder / 'series'}",
        )
    series = read(source)
    stock, patched = stock_tree(new), patched_tree(source)
    stopped = None
    with files.atomic_folder(tree) as temp:
        clone(stock, temp)
        base = port_base(temp, new, series, patched)
        state: dict[str, Any] = {
            "old": source.name,
            "entries": [patch.entry for patch in series.patches],
            "range": [base, git.text(patched, "rev-parse", "HEAD")],
            "own": list(series.files),
            "there": _blobs(folder),
        }
        write_stamp(temp, state)
        with console.step(f"merge {len(series.patches)} patches into {full}"):
            try:
                port(temp, new, series, patched, base)
            except Stopped as stop:
                stopped = stop
    if stopped is not None:
        raise _conflict(full, tree, stopped)


def port_base(tree: Path, new: Release, series: Series, patched: Path) -> str:
    """Add own modules to the tree; the commit of ``patched`` that the diffs follow."""
    lend(tree, patched)
    add_files(tree, replace(series, release=new))
    count = len(series.patches)
    return git.text(patched, "rev-parse", f"HEAD~{count}")


def port(tree: Path, new: Release, series: Series, patched: Path, base: str) -> None:
    """Merge the commits of a patched tree, but for those that upstream has.

    Raises:
        Stopped: a patch conflicts.
    """
    with files.scratch(paths.build_dir()) as folder:
        mails = mails_of(patched, base, "HEAD", folder)
        version = Version(new.version)
        wanted = [
            mail
            for mail, patch in zip(mails, series.patches, strict=True)
            if patch.merged_in is None or patch.merged_in > version
        ]
        am_mails(tree, wanted, new.source_date_epoch, "--3way")


def unmerged(tree: Path) -> list[str]:
    """The files that a stopped ``am`` left unmerged."""
    return git.text(tree, "diff", "--name-only", "--diff-filter=U").split("\n")


def _conflict(full: str, tree: Path, stop: Stopped) -> ConflictError:
    subject, _ = stopped_message(tree)
    places = ", ".join(filter(None, unmerged(tree))) or stop.words.strip()[-500:]
    return ConflictError(
        f"{subject!r} conflicts with the source of {full}: {places}",
        f"git am waits there; resolve it and go on:\n"
        f"  cd {tree}\n"
        f"  git status; edit; git add --all   # or git am --skip, which drops the patch\n"
        f"  nox -s rebase -- {full} --continue",
    )


def _resume(full: str, tree: Path) -> None:
    """Go on with a stopped ``am``, unless somebody did already."""
    if not (tree / ".git" / "rebase-apply").exists():
        if git.text(tree, "status", "--porcelain"):
            hint = "commit them (git commit --amend), then --continue"
            raise PatchsetError(f"{tree} has changes that are not committed", hint)
        return
    if left := [path for path in unmerged(tree) if path]:
        what = f"{', '.join(left)} is not resolved"
        raise ConflictError(what, f"edit it in {tree}, git add, then --continue")
    words = git.attempt(tree, "diff", "--check", "--cached", "HEAD").stdout
    if "leftover conflict marker" in words:
        hint = f"edit it in {tree}, git add, then --continue"
        raise ConflictError(f"conflict markers were added:\n{words[:1000]}", hint)
    try:
        go_on(tree, "--continue", load(full).source_date_epoch)
    except Stopped as stop:
        raise _conflict(full, tree, stop) from None


def _finish(new: Release, tree: Path) -> list[str]:
    """Write ``patches/<release>``; what somebody edited there meanwhile is left."""
    state = read_stamp(tree) or {}
    found = exported(tree, STOCK_REF, "HEAD")
    made = _settled(new, found)
    same_tree(tree, made)
    old = read(load(state["old"]))
    dropped = [patch for patch in old.patches if patch.entry not in found.by_entry()]
    proofs = {*taken_proofs(new), *(p for patch in dropped for p in patch.proofs)}
    proofs -= {proof for patch in made.patches for proof in patch.proofs}
    own = [patch for patch in made.patches if "/" not in patch.entry]
    lines = [*(FILES + path for path in sorted(made.files))]
    lines += [patch.entry for patch in made.patches]
    sums = patched_files.sums_of(changes_between(tree, STOCK_REF, "HEAD"))
    wanted: dict[str, str] = {patch.entry: patch.text() for patch in own}
    wanted[patched_files.FILE] = patched_files.text(sums)
    wanted[TAKEN] = "".join(f"{proof}\n" for proof in sorted(proofs))
    wanted["series"] = "".join(f"{line}\n" for line in lines)
    _put(new, wanted, state["there"])
    report = tree.parent / "report.md"
    lines = [*_statuses(old, found, made), *_left(dropped)]
    before, after = "..".join(state["range"]), f"{STOCK_REF}..HEAD"
    if made.files:
        after = f"{git.text(tree, 'rev-list', '--reverse', after).split()[0]}..HEAD"
    compared = git.attempt(tree, "range-diff", "--no-color", before, after).stdout
    shown = "".join(f"- {line}\n" for line in lines)
    text = f"# {state['old']} to {new.name}\n\n{shown}\n````diff\n{compared}````\n"
    files.write_text(report, text)
    return [*lines, f"report: {report}", f"next: nox -s proofs -- {new.name}"]


def _settled(new: Release, found: Exported) -> Series:
    """The new series: a shared diff where it says the same, else one of its own."""
    shared: dict[str, list[Patch]] = {}
    for entry in shared_diffs():
        file = entry_file(new, entry)
        patch = parse(content_of(file), file, entry)
        shared.setdefault(patch.name, []).append(patch)
    patches = []
    for patch in found.patches:
        same = (
            other for other in shared.get(patch.name, []) if found.says(other, patch)
        )
        own = replace(patch, entry=f"{patch.name}.diff")
        patches.append(next(same, own))
    return Series(new, found.files, patches, {})


def _blobs(folder: Path) -> dict[str, str]:
    """Git's names of the contents of a folder's files."""
    found = {}
    for file in folder.iterdir():
        if file.is_file() and not file.is_symlink():
            found[file.name] = git.blob_id(content_of(file))
    return found


def _put(new: Release, wanted: dict[str, str], there: dict[str, str]) -> None:
    """Write files of a release's folder, none over an edit made since ``there``."""
    files.remove_temp(new.folder)
    now = _blobs(new.folder)
    gone = {name for name in there if name.endswith(".diff")} - wanted.keys()
    for name in sorted({*wanted, *gone}):
        made = git.blob_id(wanted[name].encode()) if wanted.get(name) else None
        if now.get(name) not in (there.get(name), made):
            raise PatchsetError(
                f"{new.folder / name} was edited while the rebase waited",
                "move it aside, run --continue again, then put the edit in by hand",
            )
    for name, text in wanted.items():
        place = new.folder / name
        if text or name == "series":
            files.write_text(place, text)
        else:
            place.unlink(missing_ok=True)
    for name in gone:
        (new.folder / name).unlink(missing_ok=True)


def _statuses(old: Series, found: Exported, made: Series) -> list[str]:
    """One line a patch: what became of it."""
    after = found.by_entry()
    now = {patch.name: patch for patch in made.patches}
    lines = []
    for patch in old.patches:
        new = now.pop(patch.name, None)
        if new is None:
            lines.append(f"dropped  {patch.name}")
        else:
            word = "carried" if found.says(patch, after[patch.entry]) else "merged"
            lines.append(f"{word:8} {new.entry}")
    return lines + [f"{'added':8} {patch.entry}" for patch in now.values()]


def _left(dropped: list[Patch]) -> list[str]:
    return [
        f"{patch.name} is not in the new series: its proofs must pass on the stock tree "
        f"({TAKEN}); take them out there if it was dropped for another reason"
        for patch in dropped
    ]
