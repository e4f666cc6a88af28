# SPDX-License-Identifier: Apache-2.0
"""What a new patch begins with: a header to be filled in, and a proof that fails until it is written."""

from __future__ import annotations

import re
from pathlib import Path

from patchset import files, paths
from patchset.errors import UsageError
from patchset.release import Release
from patchset.series import order
from patchset.series.apply import CONFLICT_MESSAGE, commit_message, patched_tree
from patchset.series.patch import Header

_NAME = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")

_PROOF = '''\
# SPDX-License-Identifier: Apache-2.0
"""Proof of {name}: <what a client gets with the patch and does not get without it>."""

from __future__ import annotations

import pytest


def test_{function}() -> None:
    # Red without the patch, green with it. The helpers: harness.py (the parser), serving.py (the surfaces).
    pytest.fail("the proof of {name} is not written yet")
'''


def new_patch(name: str, release: Release) -> tuple[Path, Path]:
    """Set up a new patch at the end of the release's series: its header as a commit message, its proof.

    The tree to edit, with the message in ``.git``, and the proof to write. The series has the patch as soon as there is
    a change to commit and ``refresh`` wrote it; a diff of nothing is none.
    """
    if not _NAME.match(name):
        raise UsageError(
            f"{name!r} is not a valid name for a patch", "small letters, digits and hyphens: ordered-deltas"
        )
    if name in (patch.name for patch in order.read(release)):
        raise UsageError(f"{release.name} has a patch {name} already", f"nox -s apply -- {release.name}")
    function = name.replace("-", "_")
    proof = f"tests/patches/test_{function}.py"
    file = paths.project_root() / proof
    tree = patched_tree(release)
    header = Header(
        {
            "Subject": f"<one line: what {name} does>",
            "Reason": "<why it must exist: what breaks without it, for whom>",
            "Origin": "own",
            "Upstream-Status": "not submitted",
            "Drop-When": "<a condition that can be checked>",
            "Proof": proof,
            "Last-Refresh": release.name,
        }
    )
    if not file.exists():  # a patch of that name for another release has its proof
        files.write_text(file, _PROOF.format(name=name, function=function))
    files.write_text(tree / ".git" / CONFLICT_MESSAGE, commit_message(f"{name}.diff", header))
    return tree, file
