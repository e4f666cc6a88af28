"""The result as one self-contained HTML page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from conformance.report import Cell, Report
from conformance.schedule import COLUMNS
from patchset import files

_STYLE = """
:root { color-scheme: light dark; --ok: #1a7f4b; --near: #9a6a00; --bad: #b42318; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; } .dim { opacity: .65; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
.bar { display: block; height: 4px; background: var(--bad); margin-top: 2px; border-radius: 2px; overflow: hidden; }
.bar i { display: block; float: left; height: 100%; background: var(--ok); } .bar b { display: block; float: left; height: 100%; background: var(--near); }
.ok { color: var(--ok); } .bad { color: var(--bad); } .near { color: var(--near); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .3rem .8rem; } summary { cursor: pointer; }
pre { background: var(--soft); padding: .6rem; overflow-x: auto; border-radius: 4px; white-space: pre-wrap; }
.grid { display: flex; flex-wrap: wrap; gap: 2px; } .grid a { width: 12px; height: 12px; border-radius: 2px; background: var(--ok); }
.grid a.near { background: var(--near); } .grid a.bad { background: var(--bad); } .scroll { overflow-x: auto; }
"""


def _cell(cell: Cell) -> str:
    if not cell.all:
        return '<td class="dim">–</td>'
    style = (
        "ok"
        if cell.right == cell.all
        else "near"
        if cell.right + cell.near == cell.all
        else "bad"
    )
    right, near = 100 * cell.right / cell.all, 100 * cell.near / cell.all
    title = f"{cell.right} right, {cell.near} wrong in white space only, {cell.all - cell.right - cell.near} wrong"
    return (
        f'<td class="{style}" title="{title}">{cell.right}/{cell.all}'
        f'<span class="bar"><i style="width:{right:.1f}%"></i><b style="width:{near:.1f}%"></b></span></td>'
    )


def _target(report: Report) -> str:
    """One target: matrix, a square for each case, failures."""
    total = report.totals()
    rows = "".join(
        f"<tr><td>{s}</td><td>{r}</td>{''.join(_cell(row.get(c, Cell())) for c in COLUMNS)}</tr>"
        for (s, r), row in report.matrix().items()
    )
    head = "".join(f"<th>{c}</th>" for c in COLUMNS)
    squares = "".join(
        f'<a class="{"" if c.right == c.all else "near" if c.right + c.near == c.all else "bad"}" title="{html.escape(n)}: {c.right}/{c.all}"></a>'
        for n, c in report.by_case().items()
    )
    grouped: dict[str, list[dict[str, Any]]] = {}
    for failure in report.failures():
        grouped.setdefault(failure["case"], []).append(failure)
    parts = []
    for name, failures in grouped.items():
        body = "".join(
            f"<p><b>{f['surface']}</b>, start {f['start']}: {f['wrong']} of {f['all']} schedules, first {html.escape(f['schedule'])}</p>"
            f"<pre>{html.escape(chr(10).join(f['problems']))}\n\n{html.escape(f['repeat'])}</pre>"
            for f in failures[:6]
        )
        wrong = sum(f["wrong"] for f in failures)
        parts.append(
            f'<details><summary>{html.escape(name)} <span class="dim">{failures[0]["class"]}, {wrong} wrong</span></summary>{body}</details>'
        )
    words = ", ".join(f"{k} {a}/{b}" for k, (a, b) in report.classes().items())
    return (
        f"<h2>{html.escape(report.label)} <span class=dim>({report.kind})</span></h2>"
        f"<p><b>{total.right}</b> of {total.all} right, {total.near} of the others wrong in white space only. Cases wholly right: {words}. "
        f"<span class=dim>{report.streams} responses in {report.seconds:.0f} s.</span></p>"
        f"<div class=scroll><table><tr><th>surface</th><th>reasoning</th>{head}</tr>{rows}</table></div><p>One square a case:</p><div class=grid>{squares}</div>"
        f"<h3>{len(grouped)} cases with something wrong</h3>{''.join(parts) or '<p class=ok>None.</p>'}"
    )


def write_html(path: str, reports: list[Report]) -> None:
    """All targets of a run on one page, no other file needed."""
    body = "".join(_target(r) for r in reports)
    files.write_text(
        Path(path),
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Tool-call conformance</title>"
        f"<style>{_STYLE}</style><h1>Tool-call conformance</h1><p>Right responses of all, by surface and by how the token stream was cut: "
        "<i>k</i> is the speculation depth, <i>split</i> two bursts, <i>whole</i> one.</p>"
        f"{body}</html>",
    )
