# SPDX-License-Identifier: Apache-2.0
"""The README's tables. They are made here from what is pinned and measured, never by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from patchset import bench, files, lanes, paths, receipts, series
from patchset.errors import PatchsetError
from patchset.patch import Patch
from patchset.release import Release, releases

_MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def releases_table(found: list[Release]) -> str:
    """One row a release: its pin in short."""
    rows = []
    for release in reversed(found):
        targets = ", ".join(
            f"{target} ({', '.join(by_arch)})" for target, by_arch in release.wheels.items() if by_arch
        )
        name = f"**{release.name}** (default)" if release.default else release.name
        rows.append(
            f"| {name} | {release.commit} | {release.torch} | {targets} "
            f"| {len(series.entries(release))} | {release.built_version('cuda')} |"
        )
    return _table("| release | upstream commit | torch | official wheels | patches | builds version |", rows)


def patches_table(found: list[Release]) -> str:
    """One row a patch: what it does, why, and the releases whose series has it."""
    by_name: dict[str, list[tuple[Release, Patch]]] = {}
    for release in reversed(found):
        for patch in series.read(release):
            by_name.setdefault(patch.name, []).append((release, patch))
    rows = []
    for name, users in by_name.items():
        patch = users[0][1]
        where = _spans([release for release, _ in users], list(reversed(found)))
        status = patch.header.get("Upstream-Status")
        rows.append(f"| {name} | {patch.subject} | {patch.header.get('Reason')} | {status} | {where} |")
    return _table("| patch | what it does | why | upstream | releases |", rows)


def _spans(users: list[Release], order: list[Release]) -> str:
    """Names of releases, three and more neighbours as "first to last"; ``order`` is the table's."""
    numbers = [order.index(release) for release in users]
    words = []
    while numbers:
        length = 1
        while length < len(numbers) and numbers[length] == numbers[0] + length:
            length += 1
        names = [order[number].name for number in numbers[:length]]
        words += [f"{names[0]} to {names[-1]}"] if length > 2 else names
        del numbers[:length]
    return ", ".join(words)


TABLES: dict[str, Callable[[list[Release]], str]] = {
    "releases": releases_table,
    "patches": patches_table,
    "conformance": receipts.table,
    "lanes": lanes.table,
    "bench": bench.table,
    "instructions": bench.instructions_table,
}


def render(text: str) -> str:
    """The same text with every marked table made anew.

    Raises:
        PatchsetError: a marker names no table.
    """
    found = releases()

    def table(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise PatchsetError(f"README.md marks a table {match[2]!r}", f"there are {', '.join(TABLES)}")
        return match[1] + TABLES[match[2]](found) + match[3]

    return _MARKED.sub(table, text)


def readme() -> Path:
    """The file that holds the tables."""
    return paths.project_root() / "README.md"


def stale() -> bool:
    """Whether a table in the README is not what the command would write."""
    if not readme().is_file():
        return False
    text = readme().read_text(encoding="utf-8")
    return render(text) != text


def write() -> bool:
    """Write the tables; whether anything changed."""
    text = readme().read_text(encoding="utf-8")
    made = render(text)
    if made != text:
        files.write_text(readme(), made)
    return made != text


def _table(head: str, rows: list[str]) -> str:
    rule = "|" + "---|" * (head.count("|") - 1)
    return "\n".join([head, rule, *rows]) + "\n"
