# SPDX-License-Identifier: Apache-2.0
"""Tables of what is pinned: releases and patches."""

import html
import itertools

import results
from patchset.release import Release
from patchset.series.mail import Patch
from patchset.series.read import MODULES, entries, read_series


def releases_table(releases: list[Release]) -> str:
    """Return one row a release: its pin in short, and what its results belong to."""
    rows = []
    for release in releases:
        name = f"**{release.name}** (default)" if release.default else release.name
        patches = [name for name in entries(release) if not name.startswith(MODULES)]
        cpu = "yes" if release.wheels.get("cpu") else "no"
        rows.append([name, release.tier, release.torch, cpu, str(len(patches))])
    head = "release | tier | torch | CPU wheel | patches"
    return results.table(head, rows)


def patches_table(releases: list[Release]) -> str:
    """Return one line a patch: the releases that have it, what became of it upstream if
    it was submitted, and what it does. Why it exists stands in its reason.md.
    """
    by_name: dict[str, list[tuple[Release, Patch]]] = {}
    for release in releases:
        for patch in read_series(release).patches:
            by_name.setdefault(patch.name, []).append((release, patch))
    lines = []
    for name, users in by_name.items():
        patch = users[0][1]
        where = spans([release for release, _ in users], releases)
        what = html.escape(patch.subject, quote=False)  # a tag is shown, not rendered
        status = dict(patch.trailers)["Upstream-Status"]
        upstream = "" if status == "not submitted" else f"; {status}"
        lines.append(f"- **{name}**, {where}{upstream}: {what}.\n")
    return "".join(lines)


def spans(users: list[Release], among: list[Release]) -> str:
    """Return names of releases; three and more neighbours as "oldest to newest", or
    as "from" or "up to" where they reach the newest or the oldest one.
    """
    if len(users) == len(among) > 2:
        return "all"
    words: list[str] = []
    numbers = sorted(among.index(release) for release in users)
    # In a run of neighbours, number minus position stays the same.
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    for _, run in runs:
        names = [among[number].name for _, number in run]
        if len(names) < 3:
            words += names
        elif names[0] == among[0].name:
            words.append(f"from {names[-1]}")
        elif names[-1] == among[-1].name:
            words.append(f"up to {names[0]}")
        else:
            words.append(f"{names[-1]} to {names[0]}")
    return ", ".join(words)
