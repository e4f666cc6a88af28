# SPDX-License-Identifier: Apache-2.0
"""Our own modules stand as files in ``patches/src``; the diffs that bring them into a series are made of them.

A diff says in its header which files it carries: ``Source: patches/src/vllm/parser/qwen_tool_reader.py``. It may
change files of vLLM as well: only the sections that make the named files are generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from patchset.base import files, paths
from patchset.base.errors import PatchsetError
from patchset.series.patch import DIFF_START, Patch, parse_header
from patchset.series.patch import read as read_patch

#: Where our own modules stand, relative to the checkout; below it a file has the path that it has in vLLM's tree.
FOLDER = "patches/src/"

_SECTION = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)


def tree_path(source: str) -> str:
    """Where a file of ``patches/src`` stands in vLLM's tree."""
    return source.removeprefix(FOLDER)


def section(path: str, content: str) -> str:
    """A new file as git writes it into a diff."""
    if not content.endswith("\n"):
        raise PatchsetError(f"{FOLDER}{path} is empty, or its last line has no end", "end it with a newline")
    lines = content.removesuffix("\n").split("\n")
    count = f"1,{len(lines)}" if len(lines) > 1 else "1"
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +{count} @@\n" + "".join(f"+{line}\n" for line in lines)
    )


def made_of(patch: Patch) -> str:
    """The diff that a patch must have, with the files that its header names as they stand in ``patches/src``."""
    found = dict(sections(patch.diff))
    for source in patch.header.sources:
        found[tree_path(source)] = section(tree_path(source), _read(source, patch.file))
    return "".join(found[path] for path in sorted(found))


def sections(diff: str) -> Iterator[tuple[str, str]]:
    """A diff's parts, one a file: (path, text)."""
    starts = list(_SECTION.finditer(diff))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(diff)
        yield start[1], diff[start.start() : end]


def fill(place: Path) -> bool:
    """Write the files that a diff's header names into the diff; whether it changed.

    The diff may be a header alone: so a new one begins.
    """
    text = place.read_text(encoding="utf-8")
    start = DIFF_START.search(text)
    head, diff = (text[: start.start()], text[start.start() :]) if start else (text, "")
    header = parse_header(head, place)
    if not header.sources:
        return False
    made = Patch(place.name, place, header, made_of(Patch(place.name, place, header, diff)))
    if made.text() == text:
        return False
    files.write_text(place, made.text())
    read_patch(place)
    return True


def faults(patch: Patch) -> Iterator[str]:
    """Where a diff and the files that it carries differ, one line each."""
    if not patch.header.sources:
        return
    try:
        wanted = made_of(patch)
    except PatchsetError as error:
        yield error.message
        return
    if wanted != patch.diff:
        yield "does not carry its files of patches/src as they stand; nox -s refresh writes it right"


def orphans(patches: list[Patch]) -> Iterator[str]:
    """Files of ``patches/src`` that no diff carries."""
    carried = {source for patch in patches for source in patch.header.sources}
    folder = paths.project_root() / FOLDER
    for file in sorted(folder.rglob("*.py")):
        name = file.relative_to(paths.project_root()).as_posix()
        if name not in carried:
            yield f"{name} is carried by no diff; name it in a header: Source: {name}"


def _read(source: str, place: Path) -> str:
    try:
        return (paths.project_root() / source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(
            f"{place}: its file {source} cannot be read: {error}", "write it, or correct Source in the header"
        ) from error
