# SPDX-License-Identifier: Apache-2.0
"""The patched tree: the stock tree with one commit for each patch of the series on top."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchset import console, files, git, paths
from patchset.errors import AlreadyPresentError, ConflictError, PatchsetError, UsageError
from patchset.release import Release
from patchset.series import order, patched_files, replay
from patchset.series.check import Fit, State, fit
from patchset.series.patch import Header, Patch
from patchset.series.replay import Change
from patchset.series.stock_tree import BRANCH, read_stamp, stock_tree, write_stamp

#: The trailer that ties a commit of the patched tree to its line in the series.
ENTRY_TRAILER = "Patch-Entry"

#: Below ``.git``: the message for the commit that resolves a conflict, or makes a new patch.
CONFLICT_MESSAGE = "PATCH_MESSAGE"

#: What running the tree's code and tests leaves.
_CACHES = re.compile(r"(^|/| )(__pycache__|\.(pytest|mypy|ruff)_cache)(/|$)|\.pyc$")

#: The reference in a patched tree that marks where the series begins.
STOCK_REF = "refs/patchset/stock"


def patched_tree(
    release: Release, *, upto: int | str | None = None, without: Sequence[str] = (), discard: bool = False
) -> Path:
    """The patched tree ``build/trees/<release>/patched``, made when it is not as asked for.

    ``upto`` stops after that many patches (0: none) or after the patch of that name; ``without`` leaves
    patches out by name. A tree that somebody edited is left alone unless ``discard``.

    Raises:
        ConflictError: a patch does not fit; the tree then stands right before it.
        AlreadyPresentError: the source has a patch's change already.
        PatchsetError: the tree holds edits, the series cannot be read, or does not make what is pinned.
    """
    with locked_tree(release, upto=upto, without=without, discard=discard) as tree:
        return tree


@contextlib.contextmanager
def locked_tree(
    release: Release, *, upto: int | str | None = None, without: Sequence[str] = (), discard: bool = False
) -> Iterator[Path]:
    """The patched tree, kept from other runs as long as it is read."""
    series = order.read(release)
    patches = select(series, upto, without)
    stock = stock_tree(release)
    tree = paths.trees_dir(release.name) / "patched"
    with files.lock(tree):
        wanted = {
            "stock": git.text(stock, "rev-parse", "HEAD"),
            "patches": [[patch.entry, git.blob_id(patch.file.read_bytes())] for patch in patches],
            "pinned": patched_files.read(release),
        }
        stamp = read_stamp(tree)
        edits = _edits(tree, stamp) if stamp is not None else ""
        if edits and not discard:
            raise PatchsetError(
                f"the patched tree {tree} holds edits that no diff has: {edits}",
                f"keep them with nox -s refresh -- {release.name} (commit them first), "
                f"or throw them away with nox -s apply -- {release.name} --discard",
            )
        # A run that was killed behind its last step leaves the tree before it, beside one that is up to date.
        files.remove_temp(tree.parent, tree.name)
        if edits or stamp is None or stamp != {**wanted, "head": stamp["head"]}:
            with console.step(f"apply {len(patches)} patches to {release.name}"):
                failure = _build(release, tree, stock, patches, wanted, whole=patches == series)
            if failure is not None:
                raise failure
        yield tree


def select(patches: list[Patch], upto: int | str | None, without: Sequence[str]) -> list[Patch]:
    """The patches that ``upto`` and ``without`` leave."""
    names = [patch.name for patch in patches]
    known = f"the series has {len(names)}: {', '.join(names) or 'none'}"
    if isinstance(upto, str) and upto.isdecimal():
        upto = int(upto)
    if isinstance(upto, str):
        if upto.removesuffix(".diff") not in names:
            raise UsageError(f"no patch is called {upto}", known)
        upto = names.index(upto.removesuffix(".diff")) + 1
    if upto is not None and not 0 <= upto <= len(names):
        raise UsageError(f"--upto {upto} is beyond the series", known)
    left_out = {name.removesuffix(".diff") for name in without}
    if unknown := left_out.difference(names):
        raise UsageError(f"no patch is called {', '.join(sorted(unknown))}", known)
    return [patch for patch in patches[:upto] if patch.name not in left_out]


def changes(release: Release) -> list[Change]:
    """What the whole series changes, file by file, sorted by path."""
    with locked_tree(release) as tree:
        return replay.changes(tree, STOCK_REF, "HEAD")


def commit_message(entry: str, header: Header) -> str:
    """A patch's header as the message of its commit: the subject, the other fields, the entry."""
    rest = header.without_field("Subject")
    return f"{header.get('Subject')}\n\n{rest.text()}{ENTRY_TRAILER}: {entry}\n"


def _edits(tree: Path, stamp: Mapping[str, object]) -> str:
    """What the tree holds that ``apply`` did not put there: commits, branches, stashes, changed and ignored files."""
    if git.text(tree, "rev-parse", "HEAD") != stamp["head"]:
        return "commits"
    refs = git.text(tree, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/stash")
    if others := [ref for ref in refs.split("\n") if ref not in ("", f"refs/heads/{BRANCH}")]:
        return ", ".join(others[:5])
    changed = git.text(tree, "status", "--porcelain", "--ignored").splitlines()
    return ", ".join([line[3:] for line in changed if not _CACHES.search(line)][:5])


def _build(
    release: Release, tree: Path, stock: Path, patches: list[Patch], stamp: Mapping[str, Any], *, whole: bool
) -> PatchsetError | None:
    """Make the tree again; the error of the first patch that does not fit, with the tree right before it.

    A ``whole`` series must make what is pinned. Of a part, hunks that git has to choose a place for are taken when
    the whole series, replayed, makes what is pinned.
    """
    failure: PatchsetError | None = None
    with files.atomic_folder(tree) as temp:
        git.run(temp, "clone", "--quiet", "--local", "--no-tags", str(stock), ".")
        git.run(temp, "remote", "remove", "origin")
        git.run(temp, "update-ref", STOCK_REF, "HEAD")
        applied = 0
        choices: list[tuple[str, str]] = []
        for number, patch in enumerate(patches, start=1):
            console.note(f"  {patch.name} ({number}/{len(patches)})")
            found = fit(patch, temp)
            failure = _conflict_error(release, tree, patch, number, temp, found)
            if failure is not None:
                break
            git.run(temp, "apply", "--index", "--whitespace=nowarn", "-", stdin=patch.diff.encode())
            git.run(
                temp, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", "-",
                stdin=commit_message(patch.entry, patch.header).encode(), epoch=release.source_date_epoch,
            )  # fmt: skip
            applied += 1
            choices += found.choices
        if failure is None and whole:
            sums = patched_files.sums_of(replay.changes(temp, STOCK_REF, "HEAD"))
            patched_files.check(release, sums)
            patched_files.vouch(release, choices, sums)
        elif failure is None and choices:
            patched_files.vouch(release, choices, patched_files.compute(release))
        made = {"patches": stamp["patches"][:applied], "head": git.text(temp, "rev-parse", "HEAD")}
        write_stamp(temp, {**stamp, **made})
    return failure


def _conflict_error(
    release: Release, tree: Path, patch: Patch, number: int, work: Path, found: Fit
) -> PatchsetError | None:
    if found.state is State.APPLIES:
        return None
    if found.state is State.ALREADY_PRESENT:
        return AlreadyPresentError(
            f"{patch.name} ({number}. in the series) is already present in {release.name}",
            f"drop it: take the line {patch.entry} out of {order.series_file(release)} and delete the diff; "
            f"its proof ({' '.join(patch.header.proofs)}) stays and must pass on the stock release",
        )
    rejected = "\n  ".join(found.rejected)
    (work / ".git" / CONFLICT_MESSAGE).write_text(commit_message(patch.entry, patch.header), encoding="utf-8")
    return ConflictError(
        f"{patch.name} ({number}. in the series of {release.name}) conflicts:\n  {rejected}",
        f"the tree stands right before it; make the change there and take it back as a diff:\n"
        f"  cd {tree}\n"
        f"  git apply --reject {patch.file}   # puts in what fits, the rest into .rej files\n"
        f"  git add --all && git commit -F .git/{CONFLICT_MESSAGE}\n"
        f"  nox -s refresh -- {release.name} && nox -s apply -- {release.name}\n"
        f"or go on without it: nox -s apply -- {release.name} --without {patch.name}",
    )
