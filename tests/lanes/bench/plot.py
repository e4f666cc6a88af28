# SPDX-License-Identifier: Apache-2.0
"""Draws the parser's cost against length, of several releases in one plot."""

from pathlib import Path
from typing import Any

from bench.kept import WIDTH, WORKLOAD
from patchset import files

#: The newest release of each kind of parser, and a colour that the colour-blind can
#: tell from the others (Okabe and Ito's).
RELEASES = {"v0.33.0": "#D55E00", "v0.32.0": "#009E73", "v0.23.0": "#0072B2"}


def draw(runs: dict[str, list[dict[str, Any]]], place: Path) -> Path:
    """Write the plot: stock dashed, patched solid; the same figures give the same
    bytes.

    An arrow up ends the line of what was given up at a greater length.
    """
    import matplotlib
    from matplotlib import ticker
    from matplotlib.figure import Figure

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "releases"
    matplotlib.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="tokens of the argument", ylabel="µs per token")
    axes.set_title(f"Parsing one string argument, {WIDTH} tokens a step", fontsize=11)
    lengths: set[int] = set()
    greatest = 1.0
    for release, colour in RELEASES.items():
        for name, style in (("stock", "--"), ("patched", "-")):
            whole, given_up = points(runs.get(release, []), name)
            if not whole:
                continue
            tokens, costs = zip(*whole, strict=True)
            lengths.update(tokens)
            greatest = max(greatest, *costs)
            label = f"{release} {name}{' (longer: given up)' if given_up else ''}"
            line = {"color": colour, "ls": style, "ms": 4, "lw": 1.5}
            axes.plot(tokens, costs, "o", label=label, **line)
            if given_up:
                arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.5}
                ends = {"xy": (tokens[-1], 2.2 * costs[-1]), "xytext": whole[-1]}
                axes.annotate("", arrowprops=arrow, **ends)
    shown = sorted(lengths)
    axes.set_xticks(shown, [f"{length // 1000}k" for length in shown])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(True, lw=0.3, alpha=0.6)
    axes.set_ylim(top=4 * greatest)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    with files.atomic_file(place) as unfinished:
        figure.savefig(unfinished, format="svg", metadata={"Date": None})
    return place


def points(
    cells: list[dict[str, Any]], name: str
) -> tuple[list[tuple[int, float]], bool]:
    """(tokens, µs a token) of a subject, and whether a longer output was given up.

    Lower bounds are no points: they fall with length, and the cost does not.
    """
    found, given_up = [], False
    for cell in cells:
        where = (cell["path"], cell["workload"], cell["width"])
        subject = cell["subjects"].get(name, {})
        if where != ("parser", WORKLOAD, WIDTH) or not subject:
            continue
        if subject.get("bounded_at") is not None:
            given_up = True
        else:
            found.append((cell["tokens"], subject["us_per_token"][0]))
    return sorted(found), given_up
