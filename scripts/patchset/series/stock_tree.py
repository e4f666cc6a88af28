# SPDX-License-Identifier: Apache-2.0
"""The stock tree: a release's untouched source as a git repository of one commit."""

from pathlib import Path

from patchset import console, files, git, paths
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.series import state
from patchset.series.state import BRANCH, StockState


def stock_tree(release: Release) -> Path:
    """Return the stock tree ``build/trees/<release>/stock``, made if it is not there.

    A git repository whose only commit holds the source as the pin names it; its commit
    id depends on the source alone.
    """
    source = release.sdist.file, release.sdist.sha256
    tree = paths.trees_dir(release.name) / "stock"
    with files.lock(tree):
        made = _refuse_changes(tree)
        if made is not None and (made.sdist, made.sha256) == source:
            return tree
        from patchset.inputs import fetch, unpack  # half a second, and only here

        with files.atomic_folder(tree) as temp:
            archive = fetch.artifact(release.sdist)
            with console.step(f"unpack {release.sdist.file}"):
                unpack.sdist(archive, temp)
            with console.step(f"commit the stock tree of {release.name}"):
                git.run(temp, "init", "--quiet", f"--initial-branch={BRANCH}")
                git.run(temp, "add", "--all", "--force")
                git.commit(temp, f"stock {release.name}", release.source_date_epoch)
            head = git.text(temp, "rev-parse", "HEAD")
            made = StockState(head=head, sdist=source[0], sha256=source[1])
            state.write(temp, made)
            _refuse_changes(tree)  # somebody may have worked there meanwhile
    return tree


def _refuse_changes(tree: Path) -> StockState | None:
    """Refuse a stock tree that is not as it was made; else its state."""
    made = state.read(tree, StockState)
    if work := state.work_in(tree, made):
        raise PatchsetError(
            f"the stock tree {tree} was changed: {work}",
            "it is the reference, and the patched tree is the one to edit: take that "
            f"out, or keep what you need elsewhere and delete {tree}",
        )
    return made
