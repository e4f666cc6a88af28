# SPDX-License-Identifier: Apache-2.0
"""Tables of what is pinned: releases and patches."""

from __future__ import annotations

import html

from patchset import results
from patchset.release import Release
from patchset.series import order
from patchset.series.patch import Patch


def releases_table(found: list[Release]) -> str:
    """One row a release: its pin in short, and what its results belong to."""
    rows = []
    for release in found:
        name = f"**{release.name}** (default)" if release.default else release.name
        targets = ", ".join(
            f"{target} ({', '.join(by_arch)})"
            for target, by_arch in release.wheels.items()
            if by_arch
        )
        count = str(len(order.entries(release)))
        version = release.built_version("cuda")
        series = [count, version, results.patched(release.name)]
        rows.append(
            [name, release.tier, release.commit, release.torch, targets, *series]
        )
    head = "release | tier | upstream commit | torch | official wheels | patches"
    return results.table(f"{head} | builds version | patched files", rows)


def patches_table(found: list[Release]) -> str:
    """One row a patch: what it does, why, and the releases that have it."""
    by_name: dict[str, list[tuple[Release, Patch]]] = {}
    for release in found:
        for patch in order.read(release):
            by_name.setdefault(patch.name, []).append((release, patch))
    rows = []
    for name, users in by_name.items():
        patch = users[0][1]
        where = order.spans([release for release, _ in users], found)
        status = str(patch.header.get("Upstream-Status"))
        # A tag in a text is shown, not rendered, and a bar ends no cell.
        texts = (patch.subject, str(patch.header.get("Reason")))
        shown = (html.escape(text, quote=False).replace("|", "\\|") for text in texts)
        rows.append([name, *shown, status, where])
    return results.table("patch | what it does | why | upstream | releases", rows)
