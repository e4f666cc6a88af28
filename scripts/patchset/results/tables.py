# SPDX-License-Identifier: Apache-2.0
"""The tables of the README and of docs/results.md. They are made here from what is pinned and measured, never by hand."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.release import Release, releases
from patchset.results import bench, bfcl, clients, conformance, engines, lanes, tokens, tool_eval, totals
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
        sums = (patched_files.source(release)[:12], patched_files.sha256(release)[:12])
        series = (str(len(order.entries(release))), release.built_version("cuda"))
        rows.append([name, release.tier, release.commit, release.torch, targets, *series, *sums])
    head = "release | tier | upstream commit | torch | official wheels | patches | builds version"
    return totals.table(f"{head} | sha256 of the source | of source and patched files", rows)


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
        status = str(patch.header.get("Upstream-Status"))
        # A tag in a text is shown, not rendered, and a bar ends no cell.
        texts = (patch.subject, str(patch.header.get("Reason")))
        shown = (html.escape(text, quote=False).replace("|", "\\|") for text in texts)
        rows.append([name, *shown, status, where])
    return totals.table("patch | what it does | why | upstream | releases", rows)


def summary_table(found: list[Release]) -> str:
    """One row a maintained release: right responses and cost, stock beside patched."""
    rows = []
    for release in (release for release in reversed(found) if release.tier == "maintained"):
        right = [
            " → ".join(conformance.share(release, kind, column) for kind in totals.KINDS)
            for column in ("k=0", "k=5")
        ]
        rows.append([release.name, *right, bench.saved(release)])
    return totals.table("release | right at k = 0 | right at k = 5 | stock costs", rows)


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


def stale() -> dict[Path, str]:
    """The documents whose tables are not what the command would write, as it would write them."""
    found = {}
    for name in DOCUMENTS:
        if (paths.project_root() / name).is_file():
            text = (paths.project_root() / name).read_text(encoding="utf-8")
            if (made := render(text)) != text:
                found[name] = made
    return found


def write() -> list[Path]:
    """Write the tables; the documents that changed."""
    changed = stale()
    for name, made in changed.items():
        files.write_text(paths.project_root() / name, made)
    return list(changed)
