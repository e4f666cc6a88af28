# SPDX-License-Identifier: Apache-2.0
"""Draws what goes wrong by release: stock red, patched green, as docs/faults.svg."""

import results
from conformance import table
from patchset.release import Release

#: What a column counts: its heading, and the harms of the suite.
FAULTS = {
    "something ran unasked": ("ran",),
    "wrong values": ("bytes",),
    "calls lost": ("lost",),
    "text lost or misplaced": ("text",),
}
_LEFT, _TOP, _CELL, _ROW = 76, 64, 74, 26


def draw(releases: list[Release]) -> str:
    """Return the picture of the releases that have a row of stock and one of patched.

    A cell is the share of adversarial responses at k = 5 whose worst harm it is.
    """
    shown = [
        release
        for release in releases
        if set(results.KINDS) <= set(results.read(table.LANE, release.name))
    ]
    width = _LEFT + 2 * _CELL * len(FAULTS) + 4
    height = _TOP + _ROW * len(shown) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, (fault, harms) in enumerate(FAULTS.items()):
        x = _LEFT + 2 * _CELL * column
        lines.append(f'<text x="{x + _CELL}" y="22" font-weight="bold">{fault}</text>')
        for side, kind in enumerate(results.KINDS):
            middle = x + _CELL * side + _CELL // 2
            lines.append(f'<text x="{middle}" y="48">{kind}</text>')
            for row, release in enumerate(shown):
                share = table.share(release, kind, harms)
                y = _TOP + _ROW * row
                box = f'x="{x + _CELL * side + 1}" y="{y}" width="{_CELL - 2}"'
                fill = _colour(share)
                lines.append(f'<rect {box} height="{_ROW - 2}" fill="{fill}"/>')
                lines.append(f'<text x="{middle}" y="{y + 16}">{share}</text>')
    for row, release in enumerate(shown):
        y = _TOP + _ROW * row + 16
        lines.append(f'<text x="{_LEFT // 2}" y="{y}">{release.name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _colour(share: str) -> str:
    """Return green for none, else red, the deeper the more; grey if it was not run."""
    number, _, unit = share.partition(" ")
    if unit != "%":
        return "#dddddd"
    if number == "0":
        return "#9fd8a4"
    return f"hsl(6, 85%, {max(55, 88 - int(number))}%)"
