# SPDX-License-Identifier: Apache-2.0
"""Draws cost against length, one figure a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchset import files
from patchset.errors import MissingToolError

#: What is drawn, in this order and these colours (Okabe and Ito's, which the colour-blind can tell apart).
COLOURS = {
    "stock": "#D55E00",
    "patched": "#0072B2",
    "previous": "#56B4E9",
    "sglang": "#009E73",
    "lmdeploy": "#E69F00",
    "qwen3_xml": "#CC79A7",
}

Points = dict[str, list[tuple[int, float, bool]]]


def points(cells: list[dict[str, Any]], path: str, workload: str, width: int) -> Points:
    """(tokens, µs per token, whether that is a lower bound) of each subject, by length."""
    found: Points = {}
    for cell in cells:
        if (cell["path"], cell["workload"], cell["width"]) != (path, workload, width):
            continue
        for name, subject in cell["subjects"].items():
            if "us_per_token" in subject and name in COLOURS:
                bounded = subject.get("bounded_at") is not None
                found.setdefault(name, []).append((cell["tokens"], subject["us_per_token"][0], bounded))
    return {name: sorted(some) for name, some in found.items()}


def draw(release: str, cells: list[dict[str, Any]], folder: Path, width: int = 4) -> list[Path]:
    """Write ``<release>.png`` and ``.svg`` into ``folder``; repeatable byte for byte with the same figures.

    Raises:
        MissingToolError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingToolError("matplotlib is not installed", "nox -s bench installs it") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = release
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, (path, title) in zip(
        figure.subplots(1, 2), (("parser", "parser alone"), ("serving", "whole serving path")), strict=True
    ):
        _axes(axes, points(cells, path, "string", width))
        axes.set_title(title, fontsize=10)
    figure.suptitle(f"vLLM {release}: one string argument, {width} tokens a step", fontsize=11)
    made = []
    for kind in ("png", "svg"):
        place = folder / f"{release}.{kind}"
        with files.whole_file(place) as unfinished:
            figure.savefig(
                unfinished, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
            )
        made.append(place)
    return made


def _columns(some: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in some], [y for _, y in some]


def _axes(axes: Any, found: Points) -> None:
    from matplotlib import ticker

    axes.set_xscale("log")
    axes.set_yscale("log")
    for name, colour in COLOURS.items():
        if not (some := found.get(name)):
            continue
        whole = [(x, y) for x, y, bounded in some if not bounded]
        more = [(x, y) for x, y, bounded in some if bounded]
        axes.plot(*_columns(whole), "o-", color=colour, label=name, ms=4, lw=1.5)
        if more:
            axes.plot(*_columns([*whole[-1:], *more]), ":", color=colour, lw=1)
            axes.plot(*_columns(more), "^", color=colour, mfc="white", ms=7, label=f"{name}: more (given up)")
    lengths = sorted({x for some in found.values() for x, _, _ in some})
    axes.set_xticks(lengths, [f"{length // 1000}k" if length >= 1000 else str(length) for length in lengths])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    costs = [y for some in found.values() for _, y, _ in some]
    near = bool(costs) and max(costs) < 10 * min(costs)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 3, 5, 7) if near else (1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("tokens of the argument")
    axes.set_ylabel("µs per token")
    axes.grid(True, lw=0.3, alpha=0.6)
    if found:
        axes.legend(fontsize=8, frameon=False)
