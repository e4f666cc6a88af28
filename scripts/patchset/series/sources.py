# SPDX-License-Identifier: Apache-2.0
"""Our own modules stand as files in ``patches/files``; the diffs that bring them into a series are made of them.

A diff says in its header which files it carries: ``Source: patches/files/vllm/parser/qwen_tool_reader.py``. It may
change files of vLLM as well: only the sections that make the named files are generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.series.patch import DIFF_START, Patch, parse_header
from patchset.series.patch import read as read_patch

#: Where our own modules stand, relative to the checkout; below it a file has the path that it has in vLLM's tree.
FOLDER = "patches/files/"

#: What a diff says of one file: to the next line that begins another.
_SECTION = re.compile(r"^diff --git a/(.+) b/\1$(?:\n(?!diff --git ).*)*\n?", re.MULTILINE)


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


def sections(diff: str) -> dict[str, str]:
    """A diff's parts, by the path of their file."""
    return {found[1]: found[0] for found in _SECTION.finditer(diff)}


def made_of(patch: Patch) -> str:
    """The diff that a patch must have, with the files that its header names as they stand in ``patches/files``."""
    found = sections(patch.diff)
    for source in patch.header.sources:
        try:
            content = (paths.project_root() / source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{patch.file}: its file {source} cannot be read: {error}"
            raise PatchsetError(message, "write it, or correct Source in the header") from error
        path = source.removeprefix(FOLDER)
        found[path] = section(path, content)
    return "".join(found[path] for path in sorted(found))


def fill(place: Path) -> bool:
    """Write the files that a diff's header names into the diff; whether it changed.

    The diff may be a header alone: so a new one begins.
    """
    text = place.read_text(encoding="utf-8")
    start = DIFF_START.search(text)
    end = start.start() if start else len(text)
    patch = Patch(place.name, place, parse_header(text[:end], place), text[end:])
    if not patch.header.sources:
        return False
    made = replace(patch, diff=made_of(patch)).text()
    if made != text:
        files.write_text(place, made)
        read_patch(place)
    return made != text


def faults(patch: Patch) -> Iterator[str]:
    """Where a diff and the files that it carries differ, one line each."""
    try:
        if patch.header.sources and made_of(patch) != patch.diff:
            yield "does not carry its files of patches/files as they stand; nox -s refresh writes it right"
    except PatchsetError as error:
        yield error.message


def orphans(patches: list[Patch]) -> Iterator[str]:
    """Files of ``patches/files`` that no diff carries."""
    carried = {source for patch in patches for source in patch.header.sources}
    root = paths.project_root()
    there = {file.relative_to(root).as_posix() for file in (root / FOLDER).rglob("*.py")}
    for name in sorted(there - carried):
        yield f"{name} is carried by no diff; name it in a header: Source: {name}"
