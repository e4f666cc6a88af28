# SPDX-License-Identifier: Apache-2.0
"""Tables of what is pinned: releases and patches."""

import html
import itertools

import results
from patchset.release import Release
from patchset.series.mail import Patch
from patchset.series.read import MODULES, entries, read_series

#: So many patches of the same releases have a list of their own.
SEVERAL = 3


def releases_table(releases: list[Release]) -> str:
    """Return releases with their pin in short, and what their results belong to;
    neighbours that are alike share a row.
    """
    rows = []
    for release in releases:
        name = f"**{release.name}** (default)" if release.default else release.name
        patches = [name for name in entries(release) if not name.startswith(MODULES)]
        rows.append([name, release.tier, release.torch, str(len(patches))])
    alike = [
        [", ".join(row[0] for row in group), *figures]
        for figures, group in itertools.groupby(rows, key=lambda row: row[1:])
    ]
    without = [each.name for each in releases if not each.wheels.get("cpu")]
    made = results.table("release | tier | torch | patches", alike)
    return f"{made}\nWithout a CPU wheel: {', '.join(without) or 'none'}.\n"


def patches_table(releases: list[Release]) -> str:
    """Return one line a patch: the releases that have it, what became of it upstream if
    it was submitted, and what it does. Why it exists stands in its reason.md. Patches
    of the same releases stand together below these, if there are several.
    """
    by_name: dict[str, list[tuple[Release, Patch]]] = {}
    for release in releases:
        for patch in read_series(release).patches:
            by_name.setdefault(patch.name, []).append((release, patch))
    by_span: dict[str, list[tuple[str, str, str]]] = {}
    for name, users in by_name.items():
        patch = users[0][1]
        where = spans([release for release, _ in users], releases)
        what = html.escape(patch.subject, quote=False)  # a tag is shown, not rendered
        status = dict(patch.trailers)["Upstream-Status"].partition(" (")[0]
        upstream = "" if status == "not submitted" else f"; {status}"
        by_span.setdefault(where, []).append((name, upstream, what))
    parts, others = [], []
    for where, patches in by_span.items():
        if len(patches) < SEVERAL:
            others += [(name, f", {where}{more}", what) for name, more, what in patches]
        else:
            parts.append(f"{where.capitalize()}:\n\n{_listed(patches)}")
    return "\n".join([*parts, *[f"Others:\n\n{_listed(others)}"] * bool(others)])


def _listed(patches: list[tuple[str, str, str]]) -> str:
    return "".join(f"- **{name}**{more}: {what}.\n" for name, more, what in patches)


def spans(users: list[Release], among: list[Release]) -> str:
    """Return names of releases; three and more neighbours as "oldest to newest", or
    as "from" or "up to" where they reach the newest or the oldest one.
    """
    if len(users) == len(among) > 2:
        return "all releases"
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
