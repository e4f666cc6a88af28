# SPDX-License-Identifier: Apache-2.0
"""The tables of the README and of docs/results.md. They are made here from what is pinned and measured, never by hand."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

from patchset.base import files, paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release, releases
from patchset.results import bench, bfcl, clients, conformance, engines, lanes, tokens, tool_eval
from patchset.series import order, patched_files
from patchset.series.patch import Patch

#: The documents with tables, below the project's root.
DOCUMENTS = (Path("README.md"), Path("docs/results.md"))

_MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def releases_table(found: list[Release]) -> str:
    """One row a release: its pin in short, and what a result of it belongs to (results/key.py)."""
    rows = []
    for release in reversed(found):
        targets = ", ".join(
            f"{target} ({', '.join(by_arch)})" for target, by_arch in release.wheels.items() if by_arch
        )
        name = f"**{release.name}** (default)" if release.default else release.name
        rows.append(
            f"| {name} | {release.tier} | {release.commit} | {release.torch} | {targets} "
            f"| {len(order.entries(release))} | {release.built_version('cuda')} "
            f"| {patched_files.source(release)[:12]} | {patched_files.sha256(release)[:12]} |"
        )
    return _table(
        "| release | tier | upstream commit | torch | official wheels | patches | builds version "
        "| sha256 of the source | of source and patched files |",
        rows,
    )


def patches_table(found: list[Release]) -> str:
    """One row a patch: what it does, why, and the releases whose series has it."""
    by_name: dict[str, list[tuple[Release, Patch]]] = {}
    for release in reversed(found):
        for patch in order.read(release):
            by_name.setdefault(patch.name, []).append((release, patch))
    rows = []
    for name, users in by_name.items():
        patch = users[0][1]
        where = order.spans([release for release, _ in users], list(reversed(found)))
        status = patch.header.get("Upstream-Status")
        what, why = _text(patch.subject), _text(str(patch.header.get("Reason")))
        rows.append(f"| {name} | {what} | {why} | {status} | {where} |")
    return _table("| patch | what it does | why | upstream | releases |", rows)


def summary_table(found: list[Release]) -> str:
    """One row a maintained release: right responses and cost, stock beside patched."""
    rows = [
        f"| {release.name} | {_change(release, 'k=0')} | {_change(release, 'k=5')} | {bench.saved(release)} |"
        for release in reversed(found)
        if release.tier == "maintained"
    ]
    return _table("| release | right at k = 0 | right at k = 5 | stock costs |", rows)


def _change(release: Release, column: str) -> str:
    return " → ".join(conformance.share(release, kind, column) for kind in ("stock", "patched"))


TABLES: dict[str, Callable[[list[Release]], str]] = {
    "summary": summary_table,
    "releases": releases_table,
    "patches": patches_table,
    "conformance": conformance.table,
    "lanes": lanes.table,
    "clients": clients.table,
    "tokens": tokens.table,
    "tokens-soak": tokens.soak_table,
    "tool-eval": tool_eval.table,
    "bfcl": bfcl.table,
    "engines": engines.table,
    "bench": bench.table,
    "instructions": bench.instructions_table,
}


def render(text: str) -> str:
    """The same text with every marked table made again."""
    found = releases()

    def table(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise PatchsetError(
                f"<!-- table: {match[2]} --> names no table", f"use one of {', '.join(TABLES)}"
            )
        return match[1] + TABLES[match[2]](found) + match[3]

    return _MARKED.sub(table, text)


def stale() -> list[Path]:
    """The documents whose tables are not what the command would write."""
    return [name for name, (text, made) in _documents().items() if made != text]


def write() -> list[Path]:
    """Write the tables; the documents that changed."""
    changed = []
    for name, (text, made) in _documents().items():
        if made != text:
            files.write_text(paths.project_root() / name, made)
            changed.append(name)
    return changed


def _documents() -> dict[Path, tuple[str, str]]:
    """Each document that exists: its text, and the same with the tables made again."""
    texts = {
        name: (paths.project_root() / name).read_text(encoding="utf-8")
        for name in DOCUMENTS
        if (paths.project_root() / name).is_file()
    }
    return {name: (text, render(text)) for name, text in texts.items()}


def _text(words: str) -> str:
    """Plain text for a cell: a tag in it is shown, not rendered, and a bar ends no cell."""
    return html.escape(words, quote=False).replace("|", "\\|")


def _table(head: str, rows: list[str]) -> str:
    rule = "|" + "---|" * (head.count("|") - 1)
    return "\n".join([head, rule, *rows]) + "\n"
