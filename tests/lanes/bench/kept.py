# SPDX-License-Identifier: Apache-2.0
"""Results of the bench, ``results/bench/<release>.json``, and the table of them."""

import json
import platform
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import results
from bench import SUITE_VERSION
from bench.cells import LENGTHS
from bench.report import compared
from patchset import files
from patchset.release import Release
from results import Cell

LANE = "bench"
#: The summary's length: the greatest at which every stock release is measured.
SUMMARY_LENGTH = 4_000
#: The workload and the tokens a step of the table's columns.
WORKLOAD, WIDTH = "string", 4
#: The other widths of the table, and their length: no drafts, and 15.
OTHERS, OTHERS_LENGTH = (1, 16), 4_000
#: The cells of the API process's table: by cost, by memory.
_MANY, _MEMORY = ("streams64", 4_000), ("streams64", 16_000)
#: What two runs must agree in for their cells to be kept in one file.
_SAME = ("suite", "files", "rounds", "cell-seconds", "machine")
#: What a cell is known by.
_FIELDS = ("path", "workload", "tokens", "width")


def read(release: str) -> Any:
    """Return what was measured of a release; None if it was not."""
    place = results.file(LANE, release)
    return json.loads(place.read_text(encoding="utf-8")) if place.is_file() else None


def keep(run: dict[str, Any]) -> Path:
    """Keep what one run measured of a release, one cell a line.

    Cells of an earlier run like this one stay, unless measured again.
    """
    earlier = read(run["release"])
    run = {**run, "machine": _machine()}
    cells = _by_key(run.pop("cells"))
    if earlier and all(earlier.get(field) == run.get(field) for field in _SAME):
        cells = _by_key(earlier["cells"]) | cells
    lines = ",\n".join(
        f"  {json.dumps(cell, ensure_ascii=False)}" for cell in cells.values()
    )
    head = json.dumps(run, ensure_ascii=False).removesuffix("}")
    place = results.file(LANE, run["release"])
    files.write_text(place, f'{head}, "cells": [\n{lines}\n]}}\n')
    return place


def _machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.is_file() else ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return {
        "processor": model[1].strip() if model else platform.processor(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }


def _by_key(cells: list[Cell]) -> dict[tuple[Any, ...], Cell]:
    return {tuple(cell[field] for field in _FIELDS): cell for cell in cells}


def _cell(run: Any, *key: Any) -> Cell:
    """Return a cell of a run; one without figures if it was not measured."""
    cells = _by_key(run["cells"] if run else [])
    return cells.get(key, {"subjects": {}, "ratios": {}})


def table(found: Iterable[Release]) -> str:
    """Return the patched cost over stock's by length and width, and its growth."""
    lengths = (f"{length:,}".replace(",", " ") for length in LENGTHS)
    steps = (f"{width} a step" for width in OTHERS)
    head = ["release", *lengths, *steps, "growth"]
    where = [(length, WIDTH) for length in LENGTHS]
    where += [(OTHERS_LENGTH, width) for width in OTHERS]
    rows, gaps = [], []
    for release in found:
        if run := read(release.name):
            shown = (_ratio(_cell(run, "parser", WORKLOAD, *each)) for each in where)
            day = results.taken([run], SUITE_VERSION, release.name)
            rows.append([release.name, *shown, _growth(run, "parser"), day])
        elif release.tier == "maintained":
            gaps.append(release.name)
    made = results.dated(" | ".join(head), rows)
    return f"{made}\nNot run: {', '.join(gaps)}.\n" if rows and gaps else made


def process_table(found: Iterable[Release]) -> str:
    """Return the patched cost of the API process over stock's, its growth on chat, and
    the memory of both.
    """
    surfaces = ("chat", "messages", "responses")
    head = ["release", *surfaces, "one chat", "its growth", "MiB"]
    rows = []
    for release in found:
        run = read(release.name)
        shown = [_ratio(_cell(run, surface, *_MANY, WIDTH)) for surface in surfaces]
        if run and set(shown) != {results.NOT_RUN}:
            one = _ratio(_cell(run, "chat", WORKLOAD, SUMMARY_LENGTH, WIDTH))
            memory = _cell(run, "chat", *_MEMORY, WIDTH)["subjects"]
            mib = " → ".join(
                str(memory.get(kind, {}).get("mib", "–")) for kind in results.KINDS
            )
            day = results.taken([run], SUITE_VERSION, release.name)
            rows.append([release.name, *shown, one, _growth(run, "chat"), mib, day])
    return results.dated(" | ".join(head), rows)


def _growth(run: Any, path: str) -> str:
    """Return the patched cost at the greatest length over that at 4 000 tokens."""
    short = _cell(run, path, WORKLOAD, LENGTHS[-1], WIDTH)["ratios"].get("short")
    return compared(short) if short else results.NOT_RUN


def cost(release: Release) -> str:
    """Return microseconds a token at the summary's length, stock → patched."""
    cell = _cell(read(release.name), "parser", WORKLOAD, SUMMARY_LENGTH, WIDTH)
    return results.change(cell["subjects"], _microseconds)


def _microseconds(subject: Cell) -> str:
    if "us_per_token" not in subject:
        return results.NOT_RUN
    cost = statistics.median(subject["us_per_token"])
    return f"{cost:.2g}" if cost < 100 else f"{cost:.0f}"


def _ratio(cell: Cell) -> str:
    """Return the patched cost over stock's with its interval, a limit, or why there is
    none.
    """
    ratio = cell["ratios"].get("stock")
    if ratio is None:
        given_up = cell["subjects"].get("stock", {}).get("bounded_at") is not None
        return "*given up*" if given_up else results.NOT_RUN
    return compared(ratio, ".2g")
