# SPDX-License-Identifier: Apache-2.0
"""The patched tree: the stock commit, one of our own modules, then ``git am``."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from functools import cached_property
from pathlib import Path
from typing import Any

from patchset import console, files, git, paths
from patchset.errors import (
    ConflictError,
    NoSpaceError,
    PatchsetError,
)
from patchset.release import Arch, Artifact, Release, Target
from patchset.series import edited, patched_files
from patchset.series import state as states
from patchset.series.mail import MAIL, Patch
from patchset.series.read import MERGED, MODULES, SERIES, Series, read_series
from patchset.series.stock_tree import stock_tree

#: The trailer that ties a commit of a tree to its line in the series.
ENTRY = "Patch-Entry"


def tree_of(release: Release) -> Path:
    """Return where a release's patched tree is: ``build/trees/<release>/patched``."""
    return paths.trees_dir(release.name) / "patched"


def patched_tree(release: Release, *, discard: bool = False) -> Path:
    """Return the patched tree of a release, made if it is out of date.

    A tree that holds work is left alone unless ``discard``.

    Raises:
        ConflictError: a patch does not fit, or the source has its change already; the
            tree has git's stopped ``am`` of it.
        PatchsetError: the tree holds work, or does not come out as pinned.
    """
    series = read_series(release)
    stock = stock_tree(release)
    tree = tree_of(release)
    with files.lock(tree):
        head = git.text(stock, "rev-parse", "HEAD")
        wanted = states.State(
            head=head,  # known when it is made
            stock=head,
            inputs=series.inputs,
            applied=series.entries,
            pinned=patched_files.read(release),
        )
        made = states.read(tree, states.State)
        if not discard:
            refuse_work(release)
        again = made and wanted.model_copy(update={"head": made.head})
        if made and again and not discard and edited.only_modules(made, again):
            head = edited.rewrite(tree, series)
            console.note(f"when it is right: nox -s refresh -- {release.name} --all")
            states.write(tree, again.model_copy(update={"head": head}))
        elif discard or made is None or again != made:
            with console.step(f"apply {len(series.patches)} patches to {release.name}"):
                _build(series, tree, stock, wanted, discard=discard)
    return tree


def refuse_work(release: Release) -> None:
    """Refuse a patched tree with work in it that its state does not explain."""
    tree = tree_of(release)
    if work := states.work_in(tree, states.read(tree, states.State)):
        raise PatchsetError(
            f"the patched tree {tree} holds work that no diff has: {work}",
            f"commit it on {states.BRANCH} and keep it with nox -s refresh -- "
            f"{release.name}; git push takes branches and notes elsewhere; "
            f"nox -s apply -- {release.name} --discard throws all of it away",
        )


def _build(
    series: Series,
    tree: Path,
    stock: Path,
    made_of: states.State,
    *,
    discard: bool,
) -> None:
    """Make the tree again; after a conflict it has git's stopped ``am``."""
    failure: PatchsetError | None = None
    with files.atomic_folder(tree) as temp:
        clone(stock, temp)
        try:
            _apply(temp, series)
        except Stopped as stop:
            failure = _conflict(series, temp, stop, kept=True)
            applied = series.entries[: len(series.modules) + stop.number]
            update: dict[str, Any] = {"applied": applied, "stopped": True}
            made_of = made_of.model_copy(update=update)
        else:
            made = changes_between(temp, states.STOCK_REF, "HEAD")
            if series.entries:  # an empty one is to be replaced by a rebase
                patched_files.check(series.release, patched_files.sums_of(made))
        head = git.text(temp, "rev-parse", "HEAD")
        states.write(temp, made_of.model_copy(update={"head": head}))
        if not discard:  # somebody may have worked there meanwhile
            refuse_work(series.release)
    if failure is not None:
        raise failure


def clone(stock: Path, folder: Path) -> None:
    """Make a tree on top of a stock tree; objects are hard links where they can be."""
    git.run(folder, "clone", "--quiet", "--no-tags", str(stock), ".")
    git.run(folder, "remote", "remove", "origin")
    git.run(folder, "update-ref", states.STOCK_REF, "HEAD")


def add_files(tree: Path, series: Series) -> None:
    """Commit our own modules, if the series takes any."""
    for path, content in series.modules.items():
        place = tree / path
        if place.exists():
            raise ConflictError(
                f"{series.release.name} has {path} of its own",
                f"let the line {MODULES}{path} of patches/{SERIES} end before it, or "
                "rename the module",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    if series.modules:
        git.run(tree, "add", "--force", "--", *series.modules)
        message = f"Add own modules\n\n{ENTRY}: {MODULES}\n"
        git.commit(tree, message, series.release.source_date_epoch)


@dataclass
class Stopped(Exception):
    """``git am`` stopped at a patch; ``number`` counts from 0, ``words`` are git's."""

    number: int
    words: str


def _apply(tree: Path, series: Series) -> None:
    """Commit our own modules, and each patch in order.

    Raises:
        Stopped: a patch does not fit; the tree has git's stopped ``am``.
    """
    add_files(tree, series)
    epoch = series.release.source_date_epoch
    date = f"Date: {formatdate(epoch)}"
    mails = [
        MAIL + patch.mail(date, extra=((ENTRY, patch.name),))
        for patch in series.patches
    ]
    am(tree, "".join(mails).encode(), epoch)


def am(tree: Path, mails: bytes | None, epoch: int, *options: str) -> None:
    """Apply mails in order, one commit each; without mails, go on as an option says.

    Raises:
        Stopped: a patch does not fit.
    """
    if mails == b"":
        return
    options += ("--keep-cr", "--keep-non-patch", "--whitespace=nowarn")
    options += ("--no-scissors",)
    done = git.attempt(tree, "am", *options, stdin=mails, epoch=epoch)
    if done.returncode:
        words = f"{done.stdout}\n{done.stderr}"
        error = git.failure(tree, ("am",), words)
        number = tree / ".git/rebase-apply/next"
        if not number.is_file() or isinstance(error, NoSpaceError):
            raise error
        raise Stopped(int(number.read_text(encoding="ascii")) - 1, words)


def stopped_message(tree: Path) -> tuple[str, str]:
    """Return the subject, and the line in the series, of the patch that ``am`` waits
    at.
    """
    place = tree / ".git/rebase-apply/final-commit"
    message = place.read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"^{ENTRY}: (\S+)$", message, re.MULTILINE)
    return message.partition("\n")[0], found[1] if found else ""


def waiting(release: Release, what: str, how: str) -> ConflictError:
    """Return the error for an ``am`` that waits in the tree; ``how`` shows the
    conflict.
    """
    return ConflictError(
        what,
        f"git am waits there; resolve it, and take the result back:\n"
        f"  cd {tree_of(release)}\n"
        f"  {how}   # then edit\n"
        f"  git add --all && git am --continue   # or --skip, which drops the patch\n"
        f"  cd -\n"
        f"  nox -s refresh -- {release.name}",
    )


def _conflict(
    series: Series, work: Path, stop: Stopped, *, kept: bool
) -> PatchsetError:
    """Return the error for a patch where ``am`` stopped; ``kept``: the tree is, too."""
    patch, release = series.patches[stop.number], series.release
    what = f"{patch.name} ({stop.number + 1}. in the series of {release.name})"
    diff = patch.diff.encode()
    check = ("apply", "--check", "--reverse", "--whitespace=nowarn", "-")
    if git.attempt(work, *check, stdin=diff).returncode == 0:
        return ConflictError(
            f"{what} is already present in {release.name}",
            f"let the line {patch.name} of patches/{SERIES} end with the release "
            f"before, and say in patches/{patch.name}/{release.name}{MERGED} where "
            "upstream has it: its proofs must then pass on stock",
        )
    words = re.findall(r"^error: (.*)$", stop.words, re.MULTILINE)
    conflicts = f"{what} conflicts:\n  " + "\n  ".join(words[:12])
    if patched_files.read(release) is None:
        how = f"{release.name} was not ported: nox -s rebase -- {release.name}"
        return ConflictError(conflicts, f"{how} merges the series")
    if kept:
        how = "git am --show-current-patch=diff | git apply --reject"
        return waiting(release, conflicts, how)
    return ConflictError(conflicts, f"nox -s apply -- {release.name} stops at it")


@contextlib.contextmanager
def replayed(series: Series) -> Iterator[Path]:
    """Yield a scratch tree of the stock files that the series touches, with it applied.

    Takes tens of milliseconds where the whole tree takes seconds.

    Raises:
        ConflictError: a patch does not fit.
    """
    with files.scratch(paths.build_dir()) as tree:
        borrow(tree, stock_tree(series.release), "HEAD")
        named = [path for patch in series.patches for path in patch.paths]
        listing = ("--literal-pathspecs", "ls-files", "-z", "--", *series.modules)
        touched = git.run(tree, *listing, *named)
        git.run(tree, "checkout-index", "-z", "--stdin", stdin=touched)
        try:
            _apply(tree, series)
        except Stopped as stop:
            raise _conflict(series, tree, stop, kept=False) from None
        yield tree


def borrow(tree: Path, other: Path, commit: str) -> None:
    """Make a tree on a commit of another one, with its objects and without files."""
    git.run(tree, "init", "--quiet", f"--initial-branch={states.BRANCH}", ".")
    alternates = tree / ".git/objects/info/alternates"
    alternates.write_bytes(os.fsencode(other.absolute() / ".git/objects") + b"\n")
    for name in ("HEAD", states.STOCK_REF):
        git.run(tree, "update-ref", name, git.text(other, "rev-parse", commit))
    git.run(tree, "read-tree", "HEAD")


def computed(series: Series) -> list[patched_files.Change]:
    """Return the changes that a series makes, from its diffs alone."""
    with replayed(series) as tree:
        return changes_between(tree, states.STOCK_REF, "HEAD")


def changes(release: Release) -> list[patched_files.Change]:
    """Return the changes that the series of a release makes, sorted by path.

    Raises:
        PatchsetError: they are not as pinned, or the patched tree holds other work.
    """
    refuse_work(release)
    found = computed(read_series(release))
    patched_files.check(release, patched_files.sums_of(found))
    return found


def changes_between(
    repository: Path, before: str, after: str
) -> list[patched_files.Change]:
    """Return the differences of two commits, sorted by path."""
    command = ("diff-tree", "-r", "-z", "--no-renames", before, after)
    listing = git.run(repository, *command).decode().split("\0")
    found = []
    for meta, path in zip(listing[::2], listing[1::2], strict=False):
        _, mode, old, new, status = meta.removeprefix(":").split(" ")
        if mode not in ("100644", "100755", "000000"):
            raise PatchsetError(
                f"{path} is not a plain file", "take its change out of the commit"
            )
        stock = None if status == "A" else git.run(repository, "cat-file", "blob", old)
        content = (
            None if status == "D" else git.run(repository, "cat-file", "blob", new)
        )
        mode_bits = 0o755 if mode == "100755" else 0o644
        found.append(patched_files.Change(path, stock, content, mode_bits))
    return sorted(found, key=lambda change: change.path)


class PatchedRelease:
    """A pin and its series on the way to a target, each part read once."""

    def __init__(self, pin: Release, target: Target = "cuda") -> None:
        self.pin = pin
        self.target = target

    @property
    def version(self) -> str:
        """Of what is built: ``0.33.0+mtp.1``, or ``0.33.0+mtp.1.cpu``."""
        return self.pin.built_version(self.target)

    def wheel(self, arch: Arch) -> Artifact:
        """Return the official wheel for an architecture."""
        return self.pin.wheel(self.target, arch)

    @cached_property
    def patches(self) -> list[Patch]:
        """The diffs of the series, in order."""
        return read_series(self.pin).patches

    @cached_property
    def digest(self) -> str:
        """The sha256 of the source and of what the series makes."""
        return patched_files.sha256(self.pin)

    @cached_property
    def changes(self) -> list[patched_files.Change]:
        """The files that the series changes, sorted by path."""
        return changes(self.pin)
