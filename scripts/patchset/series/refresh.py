# SPDX-License-Identifier: Apache-2.0
"""Commits of a patched tree written back below ``patches/``, and what is generated."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchset import console, files, git
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
from patchset.series.commits import Commits, read_commits
from patchset.series.mail import Patch, parse, patch_name
from patchset.series.read import (
    FILES,
    MAX_FILE,
    SERIES,
    SHARED,
    TAKEN,
    Series,
    content_of,
    entries,
    entry_file,
    read_series,
    shared_diffs,
    taken_proofs,
)
from patchset.series.state import BRANCH, STOCK_REF, Port, State, other_branch
from patchset.series.stock_tree import stock_tree


@dataclass
class Outcome:
    """The result of a refresh: one line for each thing that changed."""

    lines: list[str] = field(default_factory=list)
    #: Entries whose files were written.
    written: set[str] = field(default_factory=set)
    #: Releases whose series does not apply any more.
    broken: dict[str, ConflictError] = field(default_factory=dict)


def refresh(release: Release, *, everything: bool = False) -> Outcome:
    """Write the commits of the release's patched tree back, then what is generated.

    ``patched-files.sha256`` is computed for this release, those that share a file
    which was written, or ``everything``. Nothing is written if a commit cannot become a
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
        shared = {one for one in outcome.written if one.startswith((FILES, *SHARED))}
        chosen = [
            other
            for other in releases()
            if everything
            or other.name == release.name
            or not shared.isdisjoint(entries(other))
        ]
        generate(chosen, outcome)
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
    made = _as_stored(release, found, state.inputs)
    text = {FILES + path: content.decode() for path, content in made.modules.items()}
    text |= {patch.entry: patch.text() for patch in made.patches}
    lines = sorted(FILES + path for path in made.modules)
    lines += [patch.entry for patch in made.patches]
    text[SERIES] = "".join(f"{line}\n" for line in lines)
    old = entries(release)
    gone = set(state.applied) - text.keys()
    ours = {*state.inputs.items(), *state.written.items()}
    if state.port:
        _show_moved(release, tree, state, state.port)
        taken, outcome.lines = _ported(release, tree, state, state.port, made)
        now = taken_proofs(release)
        if now and taken.issuperset(now):  # an edit of it that is kept
            ours.add((TAKEN, git.blob_id(content_of(release.folder / TAKEN))))
        if taken:
            text[TAKEN] = "".join(f"{proof}\n" for proof in sorted(taken))
        elif now:
            gone.add(TAKEN)
    if large := [name for name in text if len(text[name].encode()) > MAX_FILE]:
        raise PatchsetError(
            f"{', '.join(large)}: more than {MAX_FILE} bytes",
            "split the commit: git rebase -i",
        )
    outcome.written |= _store(release, text, gone, ours)
    # The run after one that is killed from here on knows these files as its own.
    made_of = {name: git.blob_id(words.encode()) for name, words in text.items()}
    states.write(tree, state.model_copy(update={"written": made_of}))
    outcome.lines += [
        f"{'changed' if entry in old else 'added'} {entry}"
        for entry in sorted(outcome.written)
    ]
    outcome.lines += [f"removed {entry}" for entry in sorted(gone)]
    left = [entry for entry in old if entry not in text and entry not in gone]
    outcome.lines += [f"left out of the series: {entry}" for entry in left]
    return made


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
        f"{patch.name}: {', '.join(sorted(now[patch.entry]))}; it was for "
        f"{', '.join(sorted(patch.paths))}"
        for patch in series.patches
        if now.get(patch.entry, {*patch.paths}) != {*patch.paths}
    ]


def _as_stored(release: Release, found: Commits, inputs: Mapping[str, str]) -> Series:
    """Return the series of a tree's commits, by the files that have their diffs.

    An input of the tree is changed in place, which reaches all releases that share it.
    Any other shared diff is taken if it says the same; what differs becomes the
    release's own.
    """
    patches: list[Patch] = []
    for patch in found.patches:
        known = patch.entry in inputs
        others = (e for e in shared_diffs() if patch_name(e) == patch.name)
        stored = [
            parse(content_of(file), file, entry)
            for entry in ([patch.entry] if known else others)
            if (file := entry_file(release, entry)).exists()
        ]
        same = next((other for other in stored if found.says(other, patch)), None)
        own = patch.entry if known else f"{patch.name}.diff"
        patches.append(same or replace(patch, entry=own))
    return Series(release, found.modules, patches, {})


def _store(
    release: Release,
    text: Mapping[str, str],
    gone: Iterable[str],
    ours: Set[tuple[str, str]],
) -> set[str]:
    """Write and delete files of a series; the entries that were written.

    ``ours`` has the entries with git's names of contents that may be replaced.

    Raises:
        PatchsetError: one of them was edited since the tree was made; nothing is done.
    """
    written, deleted = set(), []
    among = [other for other in releases() if other.name != release.name]
    for entry in (*text, *gone):
        file = entry_file(release, entry)
        there = git.blob_id(content_of(file)) if file.exists() else None
        made = git.blob_id(text[entry].encode()) if entry in text else None
        shared = entry.startswith((FILES, *SHARED))
        if made is None and shared and any(entry in entries(other) for other in among):
            continue
        if there not in (None, made) and (entry, there) not in ours:
            raise PatchsetError(
                f"{file} was edited since the tree was made, and differs from it",
                f"a tree without work: nox -s apply -- {release.name} --discard; else "
                "keep your edit elsewhere, put back what was there (git checkout; of a "
                "new release an empty series alone), run the same command again, then "
                "edit the tree",
            )
        if made is None:
            deleted.append(file)
        elif there != made:
            written.add(entry)
    files.write_all({entry_file(release, entry): text[entry] for entry in written})
    for file in deleted:
        file.unlink(missing_ok=True)
    return written - {SERIES, TAKEN}


def _ported(
    release: Release, tree: Path, state: State, port: Port, made: Series
) -> tuple[set[str], list[str]]:
    """Return the proofs that the stock tree must pass, and git's comparison of both
    series.

    They are those of the patches that are gone.
    """
    old = read_series(load(port.source))
    names = {patch.name for patch in made.patches}
    dropped = [patch for patch in old.patches if patch.name not in names]
    proofs = {p for patch in dropped for p in patch.proofs}
    proofs |= {*taken_proofs(release), *taken_proofs(old.release)}
    proofs -= {proof for patch in made.patches for proof in patch.proofs}
    ranges = (port.commits, f"{state.head}..HEAD")
    # A patch that was merged into much else is still the same one.
    options = ("--no-color", "--no-patch", "--creation-factor=99")
    compared = git.attempt(tree, "range-diff", *options, *ranges).stdout.splitlines()
    lines = [*compared, f"git -C {tree} range-diff {' '.join(ranges)}"]
    return proofs, lines + [
        f"{patch.name} is dropped: its proofs must pass on the stock tree ({TAKEN}); "
        "take them out there if it was dropped for another reason"
        for patch in dropped
    ]
