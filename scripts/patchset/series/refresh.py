# SPDX-License-Identifier: Apache-2.0
"""Commits of a patched tree written back below ``patches/``, and what is generated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, files, git, paths
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release, load, releases
from patchset.series import patched_files
from patchset.series import state as states
from patchset.series.apply import changes_between, computed, tree_of
from patchset.series.commits import Commits, read_commits
from patchset.series.listing import updated
from patchset.series.read import (
    MAX_FILE,
    MERGED,
    MODULES,
    REASON,
    SERIES,
    Series,
    content_of,
    read_series,
)
from patchset.series.stock_tree import stock_tree
from patchset.series.variants import written


@dataclass
class Outcome:
    """The result of a refresh: one line for each thing that changed."""

    lines: list[str] = field(default_factory=list)
    #: Files below ``patches/`` that were written or deleted, but for reasons.
    written: set[str] = field(default_factory=set)
    #: Releases whose series does not apply any more.
    broken: dict[str, ConflictError] = field(default_factory=dict)


def refresh(release: Release, *, everything: bool = False) -> Outcome:
    """Write the commits of the release's patched tree back, then what is generated.

    ``patched-files.sha256`` is computed for this release, those that take what was
    written, or ``everything``. Nothing is written if a commit cannot become a
    patch, or if a file to be written was edited since the tree was made.
    """
    outcome = Outcome()
    tree = tree_of(release)
    with files.lock(tree):
        state = states.read(tree, states.State)
        if tree.exists() and state is None:
            raise PatchsetError(
                f"{tree} has no stamp, or one of another version of this tool",
                f"keep its commits (git format-patch), then nox -s apply -- "
                f"{release.name} --discard",
            )
        made = None
        if state and _holds_commits(release, tree, state):
            made = _save(release, tree, state, outcome)
        _generate(release, outcome, everything)
        if made and state:
            if release.name not in outcome.broken:
                wanted = changes_between(tree, states.STOCK_REF, "HEAD")
                patched_files.check(release, patched_files.sums_of(wanted))
            now = states.State(
                head=git.text(tree, "rev-parse", "HEAD"),
                stock=state.stock,
                inputs=read_series(release).inputs,
                applied=made.entries,
                pinned=patched_files.read(release),
            )
            states.write(tree, now)
    return outcome


def _generate(release: Release, outcome: Outcome, everything: bool) -> None:
    """Pin what the series of a release makes, and of those that an edit reaches."""
    chosen = [
        other
        for other in releases()
        if other.name == release.name
        or (
            patched_files.read(other) is not None
            and (
                everything or not outcome.written.isdisjoint(read_series(other).inputs)
            )
        )
    ]
    with console.step(f"apply {len(chosen)} series"):
        for other in chosen:
            place = patched_files.file(other)
            try:
                sums = patched_files.sums_of(computed(read_series(other)))
            except ConflictError as error:
                outcome.broken[other.name] = error
                continue
            text = patched_files.text(sums)
            if text == (place.read_text("utf-8") if place.is_file() else ""):
                continue
            if text:
                files.write_text(place, text)
            else:
                place.unlink()
            outcome.lines.append(f"wrote {other.name}/{place.name}")


def _holds_commits(release: Release, tree: Path, state: states.State) -> bool:
    """Return whether a tree has commits to write back; refuse one that is not ready."""
    for what, place in (("am", "rebase-apply"), ("rebase", "rebase-merge")):
        if (tree / ".git" / place).exists():
            raise PatchsetError(
                f"{tree}: git {what} is not finished",
                f"git {what} --continue, --skip or --abort",
            )
    if git.text(tree, "status", "--porcelain"):
        raise PatchsetError(
            f"{tree} has changes that are not committed",
            "git commit --amend, or a commit of their own",
        )
    if branch := states.other_branch(tree):
        raise PatchsetError(
            f"{tree} is on {branch}; only {states.BRANCH} is written back",
            f"git switch {states.BRANCH}, then git merge --ff-only or git cherry-pick",
        )
    if state.port and git.text(stock_tree(release), "rev-parse", "HEAD") != state.stock:
        raise PatchsetError(
            f"{release.folder}/release.toml names another source than {tree} is of",
            f"put back what was there, or nox -s apply -- {release.name} --discard",
        )
    same = git.text(tree, "rev-parse", "HEAD") == state.head
    return bool(state.port) or state.stopped or not same


def _save(
    release: Release, tree: Path, state: states.State, outcome: Outcome
) -> Series:
    found = read_commits(tree)
    if not found.patches:
        raise PatchsetError(
            f"{tree} has no patch any more, as after git am --abort",
            f"nox -s apply -- {release.name} --discard",
        )
    series = Series(release, found.modules, found.patches, {})
    listing = updated(release, series.entries)
    texts = _texts(release, found) | listing.texts
    if state.port:
        marks, outcome.lines = _ported(release, tree, state, state.port, series)
        texts |= marks
    # A patch that was never applied is left out, and kept.
    left = {name.partition("/")[0] for name in listing.gone} - {*state.applied}
    left -= {MODULES.rstrip("/")}
    gone = [name for name in sorted(listing.gone) if name.partition("/")[0] not in left]
    changed = _changed(release, texts, gone, state.inputs)
    outcome.written = {name for name in changed if not name.endswith(f"/{REASON}")}
    outcome.lines += changed.values()
    outcome.lines += [f"left out of the series: {name}" for name in sorted(left)]
    root = paths.patches_dir()
    files.write_all(
        {root / name: texts[name] for name in changed if name in texts}
        | {root / SERIES: listing.text}
    )
    for file in map(root.joinpath, gone):
        file.unlink(missing_ok=True)
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
    return series


def _texts(release: Release, found: Commits) -> dict[str, str]:
    """Return the modules, reasons and diffs of commits, by name below ``patches/``."""
    texts = {MODULES + path: data.decode() for path, data in found.modules.items()}
    for patch in found.patches:
        texts[f"{patch.name}/{REASON}"] = patch.reason
        for name, diff in written(release, found, patch).items():
            texts[f"{patch.name}/{name}"] = diff
    if large := [name for name in texts if len(texts[name].encode()) > MAX_FILE]:
        raise PatchsetError(
            f"{', '.join(large)}: more than {MAX_FILE} bytes",
            "split the commit: git rebase -i",
        )
    return texts


def _changed(
    release: Release,
    texts: Mapping[str, str],
    gone: Iterable[str],
    inputs: Mapping[str, str],
) -> dict[str, str]:
    """Return the files to be written or deleted, with a line that says what is done.

    ``inputs`` has git's names of what the tree was made of, and may be replaced.

    Raises:
        PatchsetError: a file was edited since the tree was made.
    """
    changed = {}
    for name in (*texts, *gone):
        file = paths.patches_dir() / name
        there = git.blob_id(content_of(file)) if file.exists() else None
        made = git.blob_id(texts[name].encode()) if name in texts else None
        if there not in (None, made, inputs.get(name)):
            raise PatchsetError(
                f"{file} was edited since the tree was made, and differs from it",
                f"a tree without work: nox -s apply -- {release.name} --discard; else "
                "keep your edit elsewhere, put back what was there (git checkout), run "
                "the same command again, then edit the tree",
            )
        if there != made:
            word = "removed" if made is None else "changed" if there else "added"
            changed[name] = f"{word} {name}"
    return changed


def _ported(
    release: Release, tree: Path, state: states.State, port: states.Port, made: Series
) -> tuple[dict[str, str], list[str]]:
    """Return a mark for each patch that is gone, and git's comparison of both."""
    names = {patch.name for patch in made.patches}
    old = read_series(load(port.source)).patches
    gone = [
        f"{one.name}/{release.name}{MERGED}" for one in old if one.name not in names
    ]
    # One of an earlier port may say more.
    marks = {
        mark: f"Found in the source of {release.name}.\n"
        for mark in gone
        if not (paths.patches_dir() / mark).exists()
    }
    ranges = (port.commits, f"{state.head}..HEAD")
    # A patch that was merged into much else is still the same one.
    options = ("--no-color", "--no-patch", "--creation-factor=99")
    compared = git.attempt(tree, "range-diff", *options, *ranges).stdout.splitlines()
    lines = [*compared, f"git -C {tree} range-diff {' '.join(ranges)}"]
    return marks, lines + [
        f"{mark.partition('/')[0]} is dropped: say where upstream has it in "
        f"patches/{mark}; delete that file if it was dropped for another reason"
        for mark in marks
    ]
