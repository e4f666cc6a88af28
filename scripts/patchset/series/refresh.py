# SPDX-License-Identifier: Apache-2.0
"""Commits of a patched tree written back below ``patches/``, and what is generated."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, files, git, paths
from patchset.errors import ConflictError, PatchsetError
from patchset.release import Release, load, releases
from patchset.series import patched_files
from patchset.series import state as states
from patchset.series.apply import (
    ENTRY,
    changes_between,
    computed,
    tree_of,
)
from patchset.series.commits import read_commits
from patchset.series.listing import updated
from patchset.series.read import (
    INPUT,
    MAX_FILE,
    MERGED,
    MODULES,
    REASON,
    SERIES,
    Series,
    content_of,
    read_series,
)
from patchset.series.state import BRANCH, STOCK_REF, Port, State, other_branch
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
        state = states.read(tree, State)
        if tree.exists() and state is None:
            raise PatchsetError(
                f"{tree} has no stamp, or one of another version of this tool",
                f"keep its commits (git format-patch), then nox -s apply -- "
                f"{release.name} --discard",
            )
        made = _save(release, tree, state, outcome) if state else None
        generate(_reached(release, outcome.written, everything), outcome)
        if made and state:
            if release.name not in outcome.broken:
                wanted = changes_between(tree, STOCK_REF, "HEAD")
                patched_files.check(release, patched_files.sums_of(wanted))
            now = State(
                head=git.text(tree, "rev-parse", "HEAD"),
                stock=state.stock,
                inputs=read_series(release).inputs,
                applied=made.entries,
                pinned=patched_files.read(release),
            )
            states.write(tree, now)
    return outcome


def _reached(release: Release, written: Set[str], everything: bool) -> list[Release]:
    """Return the release, and the others that an edit reaches and that were ported."""
    return [
        other
        for other in releases()
        if other.name == release.name
        or (
            patched_files.read(other) is not None
            and (everything or not written.isdisjoint(read_series(other).inputs))
        )
    ]


def generate(chosen: Sequence[Release], outcome: Outcome) -> None:
    """Compute and write ``patched-files.sha256``."""
    with console.step(f"apply {len(chosen)} series"):
        for release in chosen:
            place = patched_files.file(release)
            try:
                sums = patched_files.sums_of(computed(read_series(release)))
            except ConflictError as error:
                outcome.broken[release.name] = error
            else:
                text = patched_files.text(sums)
                if text == (place.read_text("utf-8") if place.is_file() else ""):
                    continue
                if text:
                    files.write_text(place, text)
                else:
                    place.unlink()
                outcome.lines.append(f"wrote {release.name}/{place.name}")


def _save(
    release: Release, tree: Path, state: State, outcome: Outcome
) -> Series | None:
    """Write the tree's commits into ``patches/``; None without work in the tree."""
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
    if branch := other_branch(tree):
        raise PatchsetError(
            f"{tree} is on {branch}; only {BRANCH} is written back",
            f"git switch {BRANCH}, then git merge --ff-only or git cherry-pick",
        )
    same = git.text(tree, "rev-parse", "HEAD") == state.head
    if same and not state.port and not state.stopped:
        return None
    if state.port and git.text(stock_tree(release), "rev-parse", "HEAD") != state.stock:
        raise PatchsetError(
            f"{release.folder}/release.toml names another source than {tree} is of",
            f"put back what was there, or nox -s apply -- {release.name} --discard",
        )
    found = read_commits(tree)
    if not found.patches:
        raise PatchsetError(
            f"{tree} has no patch any more, as after git am --abort",
            f"nox -s apply -- {release.name} --discard",
        )
    series = Series(release, found.modules, found.patches, {})
    listing = updated(release, series.entries)
    texts = {MODULES + path: data.decode() for path, data in found.modules.items()}
    for patch in found.patches:
        texts[f"{patch.name}/{REASON}"] = patch.reason
        for name, diff in written(release, found, patch).items():
            texts[f"{patch.name}/{name}"] = diff
    if state.port:
        _show_moved(release, tree, state, state.port)
        marks, outcome.lines = _ported(release, tree, state, state.port, series)
        texts |= marks
    if large := [name for name in texts if len(texts[name].encode()) > MAX_FILE]:
        raise PatchsetError(
            f"{', '.join(large)}: more than {MAX_FILE} bytes",
            "split the commit: git rebase -i",
        )
    texts |= listing.texts
    # A patch that was never applied is left out, and kept.
    left = {name.partition("/")[0] for name in listing.gone} - {*state.applied}
    left -= {MODULES.rstrip("/")}
    gone = [name for name in sorted(listing.gone) if name.partition("/")[0] not in left]
    ours = {*state.inputs.items(), *state.written.items()}
    changed = _changed(release, texts, gone, ours)
    outcome.written = {name for name in changed if not name.endswith(f"/{REASON}")}
    outcome.lines += changed.values()
    outcome.lines += [f"left out of the series: {name}" for name in sorted(left)]
    # The run after one that is killed from here on knows these files as its own.
    mine = {n: git.blob_id(t.encode()) for n, t in texts.items() if INPUT.fullmatch(n)}
    states.write(tree, state.model_copy(update={"written": mine}))
    files.write_all(
        {paths.patches_dir() / name: texts[name] for name in changed if name in texts}
        | {paths.patches_dir() / SERIES: listing.text}
    )
    for name in gone:
        file = paths.patches_dir() / name
        file.unlink(missing_ok=True)
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
    return series


def _changed(
    release: Release,
    texts: Mapping[str, str],
    gone: Iterable[str],
    ours: Set[tuple[str, str]],
) -> dict[str, str]:
    """Return the files to be written or deleted, with a line that says what is done.

    ``ours`` has the files with git's names of contents that may be replaced.

    Raises:
        PatchsetError: one of them was edited since the tree was made.
    """
    changed = {}
    for name in (*texts, *gone):
        file = paths.patches_dir() / name
        there = git.blob_id(content_of(file)) if file.exists() else None
        made = git.blob_id(texts[name].encode()) if name in texts else None
        if there not in (None, made) and (name, there) not in ours:
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


def _show_moved(release: Release, tree: Path, state: State, port: Port) -> None:
    """Stop once at patches that git has put on other files than they were for."""
    found = moved(tree, read_series(load(port.source)))
    if found and not port.shown:
        shown = port.model_copy(update={"shown": True})
        states.write(tree, state.model_copy(update={"port": shown}))
        raise ConflictError(
            "these patches change other files than before, by your merge, or because "
            "git took a file that is gone for one that has its lines:\n  "
            + "\n  ".join(found),
            f"look at each: git -C {tree} log -p {STOCK_REF}..; amend what is wrong; "
            f"then nox -s refresh -- {release.name} takes the tree as it is",
        )


def moved(tree: Path, series: Series) -> list[str]:
    """Return patches of a series that change other files in a tree's commits, with
    both.
    """
    form = f"--format=%x00%(trailers:key={ENTRY},valueonly,separator=%x20)"
    names = ("log", "--no-renames", "--name-only", form, f"{STOCK_REF}..HEAD")
    commits = git.text(tree, *names).split("\0")[1:]
    now = {lines[0]: {*lines[1:]} - {""} for lines in map(str.splitlines, commits)}
    return [
        f"{patch.name}: {', '.join(sorted(now[patch.name]))}; it was for "
        f"{', '.join(sorted(patch.paths))}"
        for patch in series.patches
        if now.get(patch.name, {*patch.paths}) != {*patch.paths}
    ]


def _ported(
    release: Release, tree: Path, state: State, port: Port, made: Series
) -> tuple[dict[str, str], list[str]]:
    """Return a mark for each patch that is gone, and git's comparison of both."""
    names = {patch.name for patch in made.patches}
    old = read_series(load(port.source)).patches
    dropped = [patch.name for patch in old if patch.name not in names]
    marks = {
        f"{name}/{release.name}{MERGED}": f"Found in the source of {release.name}.\n"
        for name in dropped
    }
    ranges = (port.commits, f"{state.head}..HEAD")
    # A patch that was merged into much else is still the same one.
    options = ("--no-color", "--no-patch", "--creation-factor=99")
    compared = git.attempt(tree, "range-diff", *options, *ranges).stdout.splitlines()
    lines = [*compared, f"git -C {tree} range-diff {' '.join(ranges)}"]
    return marks, lines + [
        f"{name} is dropped: say where upstream has it in patches/{mark}; delete that "
        "file if it was dropped for another reason"
        for name, mark in zip(dropped, marks, strict=True)
    ]
