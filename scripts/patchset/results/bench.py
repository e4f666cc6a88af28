# SPDX-License-Identifier: Apache-2.0
"""Results of the bench: what parsing a release's outputs costs, stock beside patched, and the table of it."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from patchset.base import files, paths
from patchset.base.release import Release
from patchset.series import patched_files

Document = dict[str, Any]

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


def folder() -> Path:
    """Where the results stand."""
    return paths.project_root() / "results" / "bench"


def plot() -> Path:
    """The plot of what was measured."""
    return paths.project_root() / "docs" / "cost.svg"


def take(run: Document) -> Path:
    """Keep what one run measured of a release; one line a cell, so that the difference of two files can be read.

    Cells that a run like this one, of the same series and on such a machine, has kept before stay, unless measured again.
    """
    name = f"{run['release']}.json"
    place = folder() / name
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    now = {**run, "machine": machine()}
    if kept and all(kept.get(field) == now.get(field) for field in _SAME):
        cells = {_key(cell): cell for cell in kept["cells"]} | {_key(cell): cell for cell in run["cells"]}
        run = {**run, "cells": list(cells.values())}
    return _take(run, "cells", name)


def _key(cell: Document) -> tuple[str, str, int, int]:
    return cell["path"], cell["workload"], cell["tokens"], cell["width"]


def take_instructions(run: Document) -> Path:
    """Keep the instructions that were counted of a release, one line a cell."""
    return _take(run, "instructions", f"{run['release']}.instructions.json")


def _take(run: Document, key: str, name: str) -> Path:
    head = {field: value for field, value in run.items() if field != key}
    head["machine"] = machine()
    lines = [json.dumps(head, ensure_ascii=False)[:-1] + f', "{key}": [']
    lines += [",\n".join("  " + json.dumps(cell, ensure_ascii=False) for cell in run[key]), "]}"]
    place = folder() / name
    files.write_text(place, "\n".join(lines) + "\n")
    return place


def machine() -> Document:
    """What the figures were taken on, in words that another machine can be compared with."""
    model = ""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")
        ]
        model = names[0].partition(":")[2].strip() if names else ""
    return {
        "processor": model or platform.processor(),
        "arch": platform.machine(),
        "python": platform.python_version(),
    }


def table(found: list[Release]) -> str:
    """One row a release: the patched cost over stock's by length, its growth, and what a stream holds back."""
    head = [
        "release",
        *(f"{length:,}".replace(",", " ") for length in LENGTHS),
        *(f"{width} a step" for width in DEEP),
        "growth",
        "serving",
        "its growth",
        "first delta",
        "held",
    ]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for release in reversed(found):
        cells = _cells(release, len(head) - 1)
        rows.append(f"| {release.name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def saved(release: Release) -> str:
    """How many times the patched cost stock's is, at the summary's length; or why there is no figure."""
    kept = _kept(release)
    if isinstance(kept, str):
        return kept
    cell = next((c for c in kept["cells"] if _key(c) == ("parser", WORKLOAD, SUMMARY_LENGTH, WIDTH)), None)
    ratio = (cell or {"ratios": {}})["ratios"].get("stock")
    if ratio is None:
        return _ratio(cell)
    times = float(f"{1 / ratio['value']:.2g}")
    return f"{'> ' if ratio.get('at_most') else ''}{times:.0f} times as much"


def instructions_table(found: list[Release]) -> str:
    """One row a release and cell for which instructions were counted: the patched tree's a token, over each other's."""
    rows = ["| release | path | output | tokens a step | patched | " + " | ".join(f"/ {one}" for one in COUNTED) + " |",
            "|" + "---|" * (5 + len(COUNTED))]  # fmt: skip
    for release in reversed(found):
        place = folder() / f"{release.name}.instructions.json"
        if not place.is_file():
            continue
        kept = json.loads(place.read_text(encoding="utf-8"))
        if kept["series-sha256"] != patched_files.sha256(release):
            rows.append(f"| {release.name} | *series changed since* |" + " |" * (3 + len(COUNTED)))
            continue
        for cell in kept["instructions"]:
            counts = cell["instructions"]
            path = "service" if cell["path"] == "serving-once" else "parser"
            over = (f"{counts['patched'] / counts[one]:.3f}" if one in counts else "–" for one in COUNTED)
            rows.append(
                f"| {release.name} | {path} | {cell['workload']} | {cell['width']} | {counts['patched']:.0f} "
                f"| {' | '.join(over)} |"
            )
    return "\n".join(rows) + "\n"


def _kept(release: Release) -> Document | str:
    """The release's figures; or the words for its cells, where there is none for its series."""
    place = folder() / f"{release.name}.json"
    if not place.is_file():
        return "*not run*"
    kept: Document = json.loads(place.read_text(encoding="utf-8"))
    return kept if kept["series-sha256"] == patched_files.sha256(release) else "*series changed since*"


def _cells(release: Release, count: int) -> list[str]:
    kept = _kept(release)
    if isinstance(kept, str):
        return [kept, *[""] * (count - 1)]
    by = {_key(cell): cell for cell in kept["cells"]}
    ratios = [_ratio(by.get(("parser", WORKLOAD, length, WIDTH))) for length in LENGTHS]
    deep = [_ratio(by.get(("parser", WORKLOAD, DEEP_LENGTH, width))) for width in DEEP]
    return [
        *ratios,
        *deep,
        _growth(by, "parser"),
        _serving(kept["cells"]),
        _growth(by, "serving"),
        _first(kept["cells"]),
        _held(kept["cells"]),
    ]


def _ratio(cell: Document | None) -> str:
    if cell is None:
        return "*not run*"
    ratio = cell["ratios"].get("stock")
    if ratio is None:
        given_up = cell["subjects"].get("stock", {}).get("bounded_at") is not None
        return "*stock given up*" if given_up else "*not run*"
    if ratio.get("at_most"):
        return f"< {ratio['value']:.2g}"
    return f"{ratio['value']:.2g} ({ratio['low']:.2g}–{ratio['high']:.2g})"


def _growth(by: dict[tuple[str, str, int, int], Document], path: str) -> str:
    """The patched cost at the greatest length over that at 4 000 tokens, in the same rounds."""
    paired = by.get((path, WORKLOAD, LENGTHS[-1], WIDTH), {"ratios": {}})["ratios"].get("short")
    return f"{paired['value']:.2f} ({paired['low']:.2f}–{paired['high']:.2f})" if paired else "*not run*"


def _serving(cells: list[Document]) -> str:
    """The least and the greatest ratio of all cells of the whole path that have one, not just an upper limit."""
    found = [c["ratios"]["stock"] for c in cells if c["path"] == "serving" and "stock" in c["ratios"]]
    values = [ratio["value"] for ratio in found if not ratio.get("at_most")]
    return f"{min(values):.2g} … {max(values):.2g}" if values else "*not run*"


def _first(cells: list[Document]) -> str:
    """At the narrowest steps: these tell most."""
    some = [cell for cell in cells if cell["path"] == "first-delta" and cell["workload"] == WORKLOAD]
    if not some:
        return "*not run*"
    narrowest = min(some, key=lambda cell: int(cell["width"]))
    return f"{_waits(narrowest, 'stock')} → {_waits(narrowest, 'patched')}"


def _waits(cell: Document, name: str) -> str:
    subject = cell["subjects"].get(name, {})
    if "waits" not in subject:
        return "?"  # it failed
    return "never" if subject["waits"] is None else str(subject["waits"])


def _held(cells: list[Document]) -> str:
    some = [c for c in cells if c["path"] == "memory" and c["workload"] == WORKLOAD]
    if not some:
        return "*not run*"
    longest = max(some, key=lambda cell: int(cell["tokens"]))
    return " → ".join(_size(longest["subjects"].get(name, {})) for name in ("stock", "patched"))


def _size(subject: Document) -> str:
    if "held_bytes" in subject:
        return f"{subject['held_bytes'] / 1000:.0f} kB"
    return "?" if subject.get("bounded_at") is None else "*given up*"
