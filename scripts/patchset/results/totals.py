# SPDX-License-Identifier: Apache-2.0
"""The totals of each lane, one small file a release: ``results/<lane>/<release>.json``.

Each of its cells (``stock``, ``patched k3``) has the key of what was judged. What a run found in full stays in the
build folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchset.base import files, paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Release
from patchset.results.key import SUITES, key

Cell = dict[str, Any]

#: The nox session that runs a lane, where it is not called as the lane.
SESSIONS = {"cpu": "e2e-cpu", "gpu": "gpu-tests"}
#: What a table shows behind figures of an earlier series or suite.
STALE = " †"


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
    for lane in SUITES:
        places = (paths.project_root() / "results" / lane).glob(f"**/{release.name}.json")
        for place in sorted(places):
            where = place.parent.relative_to(paths.project_root() / "results").as_posix()
            wanted = {kind: key(release, kind, lane) for kind in ("stock", "patched")}
            cells = read(where, release.name)
            old = [name for name, cell in cells.items() if cell["key"] != wanted.get(name.split(" ")[0])]
            if old:
                found.append(
                    f"{release.name}: stale results of lane {where}: {', '.join(sorted(old))} "
                    f"(nox -s {SESSIONS.get(lane, lane)})"
                )
    return found
