# SPDX-License-Identifier: Apache-2.0
"""Results of lanes: ``results/<lane>/<release>.json``, one row a line.

A row records the day, the project's commit, the suite's version and, of a patched
release, a digest of the sums of the files that the lane runs. An old row is shown with
its day until the lane runs again.
"""

import datetime
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from patchset import files, git, paths
from patchset.errors import PatchsetError
from patchset.release import Release

Cell = dict[str, Any]

KINDS = ("stock", "patched")
#: Lanes that run the scheduler, the workers and their caches, and nothing of the API
#: process. In the others' API process, a script stands in the place of ``_ENGINE``.
_ENGINE_LANES = ("prefix_cache",)
_ENGINE = ("vllm/v1/core/", "vllm/v1/worker/", "vllm/v1/attention/")
NOT_RUN = "*not run*"
#: Digits of sha256 in a row.
DIGITS = 12
_RECORDED = ("date", "commit", "suite")


def file(lane: str, release: str) -> Path:
    return paths.project_root() / "results" / lane / f"{release}.json"


def read(lane: str, release: str) -> dict[str, Cell]:
    """Return the rows of a lane by name; none if it was not run."""
    path = file(lane, release)
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PatchsetError(
            f"{path} cannot be read: {error}", "restore it with git checkout"
        ) from error
    if not isinstance(rows, dict) or not all(
        isinstance(row, dict) and all(name in row for name in _RECORDED)
        for row in rows.values()
    ):
        raise PatchsetError(
            f"{path} has a row without {', '.join(_RECORDED)}",
            "run the lane again with --results",
        )
    return rows


def keep(lane: str, suite: int, release: str, name: str, figures: Cell) -> Path:
    """Write a row in place of an earlier one of its name.

    Args:
        name: Begins with ``stock``, ``patched`` or ``plugin``.
    """
    rows = read(lane, release)
    engine = lane in _ENGINE_LANES
    rows[name] = record(suite, release, name.partition(" ")[0], engine) | figures
    lines = [
        f" {json.dumps(each)}: {json.dumps(rows[each], ensure_ascii=False)}"
        for each in sorted(rows)
    ]
    path = file(lane, release)
    files.write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
    return path


def record(suite: int, release: str, kind: str, engine: bool = False) -> Cell:
    """Return the fields that say when, by what and of what figures were taken."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    row: Cell = {"date": today, "commit": _commit(), "suite": suite}
    if kind != "stock":  # made of the series or, the plugin, of its modules
        row["engine" if engine else "files"] = patched(release, engine)
    return row


def patched(release: str, engine: bool = False) -> str:
    """Return a digest of the release's patched files in the engine, or outside it."""
    path = paths.releases_dir() / release / "patched-files.sha256"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    run = [line for line in lines if line.split()[-1].startswith(_ENGINE) == engine]
    return hashlib.sha256("".join(run).encode()).hexdigest()[:DIGITS]


def _commit() -> str:
    """Return the project's commit, with ``-dirty`` if files differ from it.

    Rows, tables and the picture, which lanes write, do not count.
    """
    tables = (":!results", ":!docs/tables.md", ":!docs/faults.svg", ":!README.md")
    root, what = paths.project_root(), ("--porcelain", "--untracked-files=no")
    try:
        head = git.text(root, "rev-parse", f"--short={DIGITS}", "HEAD")
        changed = git.text(root, "status", *what, "--", ".", *tables)
    except PatchsetError:
        return "unknown"
    return f"{head}-dirty" if changed else head


def outdated(row: Cell, suite: int, release: str) -> list[str]:
    """Return what has changed since a row was taken: ``suite``, ``series``."""
    changed = ["suite"] if row["suite"] != suite else []
    for part in {"files", "engine"} & row.keys():
        if row[part] != patched(release, part == "engine"):
            changed.append("series")
    return changed


def taken(rows: Iterable[Cell], suite: int, release: str) -> str:
    """Return the oldest day of some rows as a table's cell, and what has changed since;
    their commits stand in ``results/``.
    """
    rows = list(rows)
    if not rows:
        return "–"
    changed = dict.fromkeys(
        what for row in rows for what in outdated(row, suite, release)
    )
    notes = [f"earlier {', '.join(changed)}"] if changed else []
    if any(row["commit"].endswith("-dirty") for row in rows):
        notes.append("uncommitted")
    day = min(row["date"] for row in rows)
    return f"{day} ({'; '.join(notes)})" if notes else day


def warnings(
    lane: str,
    suite: int,
    releases: Iterable[Release],
    rows: Callable[[str, str], Mapping[str, Cell]] = read,
) -> list[str]:
    """Return one line for each release whose rows of a lane are out of date."""
    lines = []
    for release in releases:
        old = {
            name: changed
            for name, row in rows(lane, release.name).items()
            if (changed := outdated(row, suite, release.name))
        }
        if old:
            what = " and ".join(dict.fromkeys(w for each in old.values() for w in each))
            lines.append(
                f"{release.name}, {lane}: {what} changed since {', '.join(old)}"
            )
    return lines


def asked(
    lane: str, releases: Iterable[Release], kinds: Iterable[str] = KINDS
) -> Iterator[tuple[Release, dict[str, Cell]]]:
    """Yield the releases with rows of a lane, and those of ``kinds``."""
    for release in releases:
        rows = read(lane, release.name)
        if cells := {kind: rows[kind] for kind in kinds if kind in rows}:
            yield release, cells


def change(by_kind: Mapping[str, Any], words: Callable[[Any], str]) -> str:
    """Return stock's words → patched's; a missing row is said in its place."""
    return " → ".join(
        words(by_kind[kind]) if kind in by_kind else NOT_RUN for kind in KINDS
    )


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown, or that nothing was run; ``head`` has its columns
    between bars.
    """
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = "|" + "---|" * (head.count("|") + 1)
    return "\n".join([f"| {head} |", rule, *lines] if lines else [NOT_RUN]) + "\n"


def dated(head: str, rows: Iterable[list[str]]) -> str:
    """Return a table of rows that end in the day of their run. What a column says in
    each of several rows is said once, below.
    """
    rows = list(rows)
    titles = [*head.split(" | "), "taken"]
    differ, same = [], []
    for number, title in enumerate(titles):
        cells = {row[number] for row in rows}
        if len(rows) > 1 and len(cells) == 1:
            same.append(f"{title} {cells.pop()}")
        else:
            differ.append(number)
    made = table(
        " | ".join(titles[number] for number in differ),
        [[row[number] for number in differ] for row in rows],
    )
    if rows and same == [f"taken {rows[0][-1]}"]:
        return f"{made}\nTaken {rows[0][-1]}.\n"
    return f"{made}\nIn every row: {'; '.join(same)}.\n" if same else made


def together(rows: Iterable[list[str]]) -> list[list[str]]:
    """Return the rows of releases; neighbours of equal figures share one, with the
    oldest of the days in their last cells.
    """

    def figures(row: list[str]) -> list[str]:
        return [*row[1:-1], row[-1].partition(" ")[2]]  # all but release and day

    groups = [list(group) for _, group in itertools.groupby(rows, key=figures)]
    return [
        [", ".join(row[0] for row in group), *min(group, key=lambda row: row[-1])[1:]]
        for group in groups
    ]


def put(text: str, name: str, made: str) -> str:
    """Return a document with what stands behind ``<!-- NAME -->`` made again, up to
    ``<!-- end of … -->``.
    """
    marked = rf"(<!-- {name} -->\n).*?(<!-- end of [a-z ]+ -->)"
    return re.sub(marked, lambda match: match[1] + made + match[2], text, flags=re.S)
