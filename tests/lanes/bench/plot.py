# SPDX-License-Identifier: Apache-2.0
"""Draws cost against length: one figure a release, and one of several releases for the documents."""

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
                found.setdefault(name, []).append(
                    (cell["tokens"], subject["us_per_token"][0], bounded)
                )
    return {name: sorted(some) for name, some in found.items()}


#: What the plot of several releases shows: the newest of each kind of parser, and a colour for each.
RELEASES = {"v0.33.0": "#D55E00", "v0.32.0": "#009E73", "v0.23.0": "#0072B2"}


def draw(
    release: str, cells: list[dict[str, Any]], folder: Path, width: int = 4
) -> list[Path]:
    """Write ``<release>.png`` and ``.svg`` into ``folder``; repeatable byte for byte with the same figures.

    Raises:
        MissingToolError: matplotlib is not installed.
    """
    figure = _figure(release, 9)
    for axes, (path, title) in zip(
        figure.subplots(1, 2),
        (("parser", "parser alone"), ("serving", "whole serving path")),
        strict=True,
    ):
        found = points(cells, path, "string", width)
        for name, colour in COLOURS.items():
            _line(axes, found.get(name, []), name, color=colour)
        _scales(axes, found)
        axes.set_title(title, fontsize=10)
    figure.suptitle(
        f"vLLM {release}: one string argument, {width} tokens a step", fontsize=11
    )
    return [_save(figure, folder / f"{release}.{kind}") for kind in ("png", "svg")]


def draw_releases(
    runs: dict[str, list[dict[str, Any]]], place: Path, width: int = 4
) -> Path:
    """Write one plot of the parser's cost in ``RELEASES``: stock dashed, patched solid.

    Raises:
        MissingToolError: matplotlib is not installed.
    """
    figure = _figure("releases", 7)
    axes = figure.subplots()
    drawn: Points = {}
    for release, colour in RELEASES.items():
        found = points(runs.get(release, []), "parser", "string", width)
        for name, style in (("stock", "--"), ("patched", "-")):
            some = drawn[f"{release} {name}"] = found.get(name, [])
            _line(axes, some, f"{release} {name}", color=colour, ls=style)
    _scales(axes, drawn)
    axes.set_title(f"Parsing one string argument, {width} tokens a step", fontsize=11)
    return _save(figure, place)


def _figure(salt: str, inches: float) -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingToolError(
            "matplotlib is not installed", "nox -s bench installs it"
        ) from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = salt
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib.figure import Figure

    return Figure(figsize=(inches, 3.6), layout="constrained")


def _save(figure: Any, place: Path) -> Path:
    kind = place.suffix[1:]
    with files.atomic_file(place) as unfinished:
        figure.savefig(
            unfinished,
            format=kind,
            dpi=110,
            metadata={"Date": None} if kind == "svg" else None,
        )
    return place


def _line(
    axes: Any, some: list[tuple[int, float, bool]], label: str, **style: Any
) -> None:
    """Draw what was measured. An arrow up ends the line where a longer output was given up.

    Lower bounds are not drawn as points: they fall with length, and the cost does not.
    """
    whole = [(x, y) for x, y, bounded in some if not bounded]
    if not whole:
        return
    given_up = len(whole) < len(some)
    label += " (longer: given up)" if given_up else ""
    axes.plot(
        [x for x, _ in whole],
        [y for _, y in whole],
        "o",
        label=label,
        ms=4,
        lw=1.5,
        **{"ls": "-"} | style,
    )
    if given_up:
        x, y = whole[-1]
        arrow = {"arrowstyle": "-|>", "color": style["color"], "lw": 1.5}
        axes.annotate("", xy=(x, 2.2 * y), xytext=(x, y), arrowprops=arrow)


def _scales(axes: Any, found: Points) -> None:
    from matplotlib import ticker

    axes.set_xscale("log")
    axes.set_yscale("log")
    shown = [(x, y) for some in found.values() for x, y, bounded in some if not bounded]
    lengths = sorted({x for x, _ in shown})
    axes.set_xticks(
        lengths,
        [f"{length // 1000}k" if length >= 1000 else str(length) for length in lengths],
    )
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    costs = [y for _, y in shown]
    near = bool(costs) and max(costs) < 10 * min(costs)
    axes.yaxis.set_major_locator(
        ticker.LogLocator(subs=(1, 1.5, 2, 3, 5, 7) if near else (1,))
    )
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("tokens of the argument")
    axes.set_ylabel("µs per token")
    axes.grid(True, lw=0.3, alpha=0.6)
    if costs:
        axes.set_ylim(top=4 * max(costs))
        axes.legend(
            fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
        )
