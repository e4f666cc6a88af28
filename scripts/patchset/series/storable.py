# SPDX-License-Identifier: Apache-2.0
"""Whether a commit can be stored as a diff: what is written must make the same tree again when it is applied."""

from __future__ import annotations

import tempfile
from pathlib import Path

from patchset.base import git
from patchset.series.patch import Patch, PatchFormatError, parse


def fault(tree: Path, commit: str, patch: Patch) -> str | None:
    """Why the diff of a commit cannot stand for it (binary files, links, modes, empty files, submodules …), or None."""
    try:
        parse(patch.text().encode(), patch.file, patch.entry)
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            git.run(tree, "read-tree", f"{commit}^", index=index)
            git.run(
                tree, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.diff.encode(), index=index
            )
            made = git.run(tree, "write-tree", index=index).decode().strip()
    except PatchFormatError as error:
        return error.message.removeprefix(f"{patch.file}: ")
    except git.GitError as error:
        return f"its diff does not apply again: {error.stderr.strip()[:300]}"
    return (
        None
        if made == git.text(tree, "rev-parse", f"{commit}^{{tree}}")
        else "its diff does not hold all of it"
    )
