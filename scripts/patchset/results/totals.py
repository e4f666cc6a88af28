# SPDX-License-Identifier: Apache-2.0
"""The totals of each lane, one small file a release: ``results/<lane>/<release>.json``.

Each of its cells (``stock``, ``patched k3``) has the key of what was judged. What a run found in full stays in the
build folder. Here too is what the tables of all lanes have in common.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.results.key import SUITES, key

Cell = dict[str, Any]

KINDS = ("stock", "patched")
#: The nox session that runs a lane, where it is not called as the lane.
SESSIONS = {"cpu": "e2e-cpu", "gpu": "gpu-tests"}
#: What a table shows behind figures of an earlier series or suite, and for a cell without any.
STALE = " †"
NOT_RUN = "*not run*"


def file(lane: str, release: str) -> Path:
    """Where the totals of a lane stand; of real weights ``lane`` is ``gpu/<weights>``."""
    return paths.project_root() / "results" / lane / f"{release}.json"


def read(lane: str, release: str) -> dict[str, Cell]:
    """The cells of a lane's totals; none where it was not run."""
    place = file(lane, release)
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}", "git checkout brings it back") from error
    if not isinstance(found, dict) or not all(
        isinstance(cell, dict) and isinstance(cell.get("key"), str) for cell in found.values()
    ):
        raise PatchsetError(f"{place} has a cell without a key", "run the lane again, with --results")
    return found


def marked(lane: str, release: Release) -> dict[str, Cell]:
    """The cells as tables show them: the ``mark`` of each is ``STALE`` where its key is not today's, else empty."""
    cells = read(lane, release.name)
    for name, cell in cells.items():
        wanted = key(release, name.partition(" ")[0], lane.partition("/")[0])
        cell["mark"] = "" if cell["key"] == wanted else STALE
    return cells


def mark(cells: Iterable[Cell]) -> str:
    """The mark of what is made of several cells."""
    return STALE if any(cell["mark"] for cell in cells) else ""


def keep(lane: str, release: str, name: str, cell: Cell) -> Path:
    """Put one cell into the totals of a lane, in place of an earlier one."""
    place = file(lane, release)
    cells = {**read(lane, release), name: cell}
    lines = [f" {json.dumps(name)}: {json.dumps(cells[name], ensure_ascii=False)}" for name in sorted(cells)]
    files.write_text(place, "{\n" + ",\n".join(lines) + "\n}\n")
    return place


def stale(release: Release) -> list[str]:
    """Results of a release that belong to another series, source or suite than today's, one line each."""
    found = []
    folder = paths.project_root() / "results"
    for lane in SUITES:
        for place in sorted((folder / lane).glob(f"**/{release.name}.json")):
            where = place.parent.relative_to(folder).as_posix()
            if old := sorted(name for name, cell in marked(where, release).items() if cell["mark"]):
                found.append(
                    f"{release.name}: stale results of lane {where}: {', '.join(old)} "
                    f"(nox -s {SESSIONS.get(lane, lane)})"
                )
    return found


def change(by_kind: Mapping[str, Cell], words: Callable[[Cell], str]) -> str:
    """Stock's words → patched's; a missing cell is asked as an empty one."""
    return " → ".join(words(by_kind.get(kind, {})) for kind in KINDS)


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown; ``head`` has its columns between bars."""
    rule = "|" + "---|" * (head.count("|") + 1)
    return "\n".join([f"| {head} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
