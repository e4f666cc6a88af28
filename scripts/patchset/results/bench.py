# SPDX-License-Identifier: Apache-2.0
"""Results of the bench: what parsing a release's outputs costs, stock beside patched, and the table of it."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

from patchset import files, paths
from patchset.release import Release
from patchset.results import totals
from patchset.results.totals import Cell
from patchset.series import patched_files

#: Lengths of the table's columns, in tokens.
LENGTHS = (1_000, 4_000, 16_000, 64_000, 256_000)
#: Length of the summary's column, in tokens: the greatest one at which every stock release is still measured.
SUMMARY_LENGTH = 4_000
#: The workload and the tokens a step of the table's columns.
WORKLOAD, WIDTH = "string", 4
#: Tokens of the widest steps that 7 and 15 drafted tokens give, and the length at which their cost is shown.
DEEP, DEEP_LENGTH = (8, 16), 4_000
#: Whom the table of instructions compares with.
COUNTED = ("stock", "nothing", "sglang", "lmdeploy")
#: What two runs must agree in for their cells to stand in one file.
_SAME = ("series-sha256", "against", "rounds", "cell-seconds", "machine")
#: A cell that was not measured.
_NONE: Cell = {"subjects": {}, "ratios": {}}


def folder() -> Path:
    """Where the results stand."""
    return paths.project_root() / "results" / "bench"


def plot() -> Path:
    """The plot of what was measured."""
    return paths.project_root() / "docs" / "cost.svg"


def take(run: dict[str, Any]) -> Path:
    """Keep what one run measured of a release; one line a cell, so that the difference of two files can be read.

    Cells that a run like this one, of the same series and on such a machine, has kept before stay, unless measured again.
    """
    place = folder() / f"{run['release']}.json"
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    run = {**run, "machine": _machine()}
    if kept and all(kept.get(field) == run.get(field) for field in _SAME):
        run["cells"] = list((_by_key(kept["cells"]) | _by_key(run["cells"])).values())
    return _write(place, run, "cells")


def take_instructions(run: dict[str, Any]) -> Path:
    """Keep the instructions that were counted of a release, one line a cell."""
    place = folder() / f"{run['release']}.instructions.json"
    return _write(place, {**run, "machine": _machine()}, "instructions")


def _write(place: Path, run: dict[str, Any], key: str) -> Path:
    cells = ",\n".join("  " + json.dumps(cell, ensure_ascii=False) for cell in run.pop(key))
    head = json.dumps(run, ensure_ascii=False).removesuffix("}")
    files.write_text(place, f'{head}, "{key}": [\n{cells}\n]}}\n')
    return place


def _machine() -> dict[str, str]:
    """What the figures were taken on, in words that another machine can be compared with."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.is_file() else ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return {
        "processor": model[1].strip() if model else platform.processor(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }


def _by_key(cells: list[Cell]) -> dict[tuple[str, str, int, int], Cell]:
    return {(cell["path"], cell["workload"], cell["tokens"], cell["width"]): cell for cell in cells}


def _kept(release: Release, of: str = "") -> dict[str, Any] | str:
    """What was kept of a release's series; or the words for its cells, where there is nothing."""
    place = folder() / f"{release.name}{of}.json"
    if not place.is_file():
        return totals.NOT_RUN
    kept: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return kept if kept["series-sha256"] == patched_files.sha256(release) else "*series changed since*"


def table(found: list[Release]) -> str:
    """One row a release: the patched cost over stock's by length, its growth, and what a stream holds back."""
    head = [
        "release",
        *(f"{length:,}".replace(",", " ") for length in LENGTHS),
        *(f"{width} a step" for width in DEEP),
        *("growth", "serving", "its growth", "first delta", "held"),
    ]
    rows = []
    for release in reversed(found):
        kept = _kept(release)
        cells = [kept, *[""] * (len(head) - 2)] if isinstance(kept, str) else _figures(kept["cells"])
        rows.append([release.name, *cells])
    return totals.table(" | ".join(head), rows)


def _figures(cells: list[Cell]) -> list[str]:
    by = _by_key(cells)
    shown = [*((length, WIDTH) for length in LENGTHS), *((DEEP_LENGTH, width) for width in DEEP)]
    growth = []
    for path in ("parser", "serving"):
        # The patched cost at the greatest length over that at 4 000 tokens, in the same rounds.
        short = by.get((path, WORKLOAD, LENGTHS[-1], WIDTH), _NONE)["ratios"].get("short")
        growth.append(
            f"{short['value']:.2f} ({short['low']:.2f}–{short['high']:.2f})" if short else totals.NOT_RUN
        )
    # Of the whole path the least and the greatest ratio of all, without those that are just an upper limit.
    serving = [cell["ratios"].get("stock", {"at_most": True}) for cell in cells if cell["path"] == "serving"]
    values = [ratio["value"] for ratio in serving if not ratio.get("at_most")]
    whole = f"{min(values):.2g} … {max(values):.2g}" if values else totals.NOT_RUN
    waits = [cell for cell in cells if (cell["path"], cell["workload"]) == ("first-delta", WORKLOAD)]
    # At the narrowest steps: these tell most.
    narrowest = min(waits, key=lambda cell: int(cell["width"]), default=None)
    held = [cell for cell in cells if (cell["path"], cell["workload"]) == ("memory", WORKLOAD)]
    longest = max(held, key=lambda cell: int(cell["tokens"]), default=None)
    return [
        *(_ratio(by.get(("parser", WORKLOAD, *where), _NONE)) for where in shown),
        *(growth[0], whole, growth[1]),
        totals.change(narrowest["subjects"], _waits) if narrowest else totals.NOT_RUN,
        totals.change(longest["subjects"], _size) if longest else totals.NOT_RUN,
    ]


def saved(release: Release) -> str:
    """How many times the patched cost stock's is, at the summary's length; or why there is no figure."""
    kept = _kept(release)
    if isinstance(kept, str):
        return kept
    cell = _by_key(kept["cells"]).get(("parser", WORKLOAD, SUMMARY_LENGTH, WIDTH), _NONE)
    ratio = cell["ratios"].get("stock")
    if ratio is None:
        return _ratio(cell)
    times = float(f"{1 / ratio['value']:.2g}")
    return f"{'> ' if ratio.get('at_most') else ''}{times:.0f} times as much"


def instructions_table(found: list[Release]) -> str:
    """One row a release and cell for which instructions were counted: the patched tree's a token, over each other's."""
    rows = []
    for release in reversed(found):
        kept = _kept(release, ".instructions")
        if kept == totals.NOT_RUN:
            continue
        if isinstance(kept, str):
            rows.append([release.name, kept + " |" * (3 + len(COUNTED))])
            continue
        for cell in kept["instructions"]:
            counts = cell["instructions"]
            path = "service" if cell["path"] == "serving-once" else "parser"
            over = (f"{counts['patched'] / counts[one]:.3f}" if one in counts else "–" for one in COUNTED)
            figures = [cell["workload"], str(cell["width"]), f"{counts['patched']:.0f}", *over]
            rows.append([release.name, path, *figures])
    head = "release | path | output | tokens a step | patched | " + " | ".join(f"/ {one}" for one in COUNTED)
    return totals.table(head, rows)


def _ratio(cell: Cell) -> str:
    """The patched cost over stock's and its interval; or a limit of it, or why there is none."""
    ratio = cell["ratios"].get("stock")
    if ratio is None:
        given_up = cell["subjects"].get("stock", {}).get("bounded_at") is not None
        return "*stock given up*" if given_up else totals.NOT_RUN
    if ratio.get("at_most"):
        return f"< {ratio['value']:.2g}"
    return f"{ratio['value']:.2g} ({ratio['low']:.2g}–{ratio['high']:.2g})"


def _waits(subject: Cell) -> str:
    # One that failed says nothing.
    waits = subject.get("waits", "?")
    return "never" if waits is None else str(waits)


def _size(subject: Cell) -> str:
    if "held_bytes" in subject:
        return f"{subject['held_bytes'] / 1000:.0f} kB"
    return "?" if subject.get("bounded_at") is None else "*given up*"
