# SPDX-License-Identifier: Apache-2.0
"""A series ported to another release, by ``git am -3`` onto its source."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from patchset import console, files, git
from patchset.errors import ConflictError, UsageError, tail
from patchset.inputs import pin
from patchset.release import Release, load, releases, version
from patchset.series import patched_files
from patchset.series import state as states
from patchset.series.apply import (
    Stopped,
    add_files,
    am,
    clone,
    patched_tree,
    refuse_work,
    stopped_message,
    tree_of,
    waiting,
)
from patchset.series.commits import mails_of
from patchset.series.read import Series, read_series
from patchset.series.refresh import Outcome, refresh
from patchset.series.stock_tree import stock_tree

#: Packs objects as they are: to compress them takes longer than all the rest.
_UPLOAD = "git -c pack.window=0 -c core.compression=0 upload-pack"


def rebase(
    name: str,
    old: str | None = None,
    ask: Callable[[str], str | None] | None = None,
) -> Outcome:
    """Port a series to the release ``name``, as its patched tree, and write it.

    ``old`` names the release whose series is ported (the nearest one without it). After
    a conflict the tree is written by ``refresh``, as any other; so does this. ``ask``
    is for a new pin.

    Raises:
        ConflictError: git am waits at a patch that needs a decision.
    """
    full = pin.full_name(name)
    if not pin.file(full).is_file():
        pin.make(full, ask)
    new = load(full)
    tree = tree_of(new)
    with files.lock(tree):
        made = states.read(tree, states.State)
        if made is None or made.port is None:
            _begin(new, load(old) if old else nearest(full), tree)
        elif old and made.port.source != load(old).name:
            raise UsageError(
                f"a rebase of {made.port.source} to {full} is under way in {tree}",
                f"nox -s apply -- {full} --discard throws it away",
            )
    return refresh(new)


def nearest(name: str) -> Release | None:
    """Return the newest older release that was ported, else the oldest newer one."""
    others = [
        other
        for other in releases()
        if other.name != name and patched_files.read(other) is not None
    ]
    below = [other for other in others if version(other.name) < version(name)]
    return below[-1] if below else next(iter(others), None)


def _begin(new: Release, source: Release | None, tree: Path) -> None:
    """Merge a series into a release's source."""
    if source is None or source.name == new.name:
        raise UsageError("no other release was ported", "--from RELEASE names one")
    if patched_files.read(new) is not None:
        raise UsageError(
            f"{new.name} was ported already",
            f"nox -s rebase -- --try {new.name} --series {source.name} tries another; "
            f"to port it again, delete {patched_files.file(new)} and the diffs "
            f"patches/*/{new.name}.diff",
        )
    refuse_work(new)
    series = read_series(source)
    stock, patched = stock_tree(new), patched_tree(source)
    conflict: ConflictError | None = None
    with (
        console.step(f"merge {len(series.patches)} patches into {new.name}"),
        files.atomic_folder(tree) as temp,
    ):
        clone(stock, temp)
        base = port_base(temp, new, series, patched)
        commits = f"{base}..{git.text(patched, 'rev-parse', 'HEAD')}"
        made = states.State(
            head=git.text(temp, "rev-parse", "HEAD"),
            stock=git.text(stock, "rev-parse", "HEAD"),
            inputs=read_series(new).inputs,
            applied=[],
            port=states.Port.model_validate({"from": source.name, "range": commits}),
        )
        states.write(temp, made)
        try:
            am(temp, mails_of(patched, base), new.source_date_epoch, "--3way")
        except Stopped as stop:
            subject, _ = stopped_message(temp)
            places = ", ".join(unmerged(temp)) or tail(stop.words, 500)
            what = f"{subject!r} conflicts with the source of {new.name}: {places}"
            conflict = waiting(new, what, "git status")
        refuse_work(new)  # somebody may have worked there meanwhile
    if conflict is not None:
        raise conflict


def port_base(tree: Path, new: Release, series: Series, patched: Path) -> str:
    """Add own modules to a tree, and the objects of the patched tree to be ported.

    Returns the commit of ``patched`` that its diffs follow.
    """
    fetch = ("fetch", "--quiet", "--no-tags", f"--upload-pack={_UPLOAD}")
    git.run(tree, *fetch, str(patched), "HEAD")
    add_files(tree, replace(series, release=new))
    return git.text(patched, "rev-parse", f"HEAD~{len(series.patches)}")


def unmerged(tree: Path) -> list[str]:
    """Return the files that a stopped ``am`` left unmerged."""
    return git.text(tree, "diff", "--name-only", "--diff-filter=U").splitlines()
