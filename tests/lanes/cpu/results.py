# SPDX-License-Identifier: Apache-2.0
"""Results: what the lane ran on which exact wheel, and what came out; and the table made from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cpu import table as totals
from cpu.verdict import Verdict

#: A result shows at most so many wrong answers in full, one of each sort; all of them are counted.
MOST_SHOWN = 200
_COLUMNS = [
    (surface, streamed)
    for surface in ("chat", "responses", "messages")
    for streamed in (False, True)
]


@dataclass(frozen=True)
class Count:
    """Right ones of some requests."""

    requests: int
    right: int

    def __str__(self) -> str:
        return f"{self.right}/{self.requests}"


def counts(verdicts: Sequence[Verdict], by: Iterable[str]) -> dict[str, Count]:
    """Requests and right ones for each key; ``by`` holds one key for each verdict."""
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for verdict, key in zip(verdicts, by, strict=True):
        total[key] += 1
        right[key] += verdict.kind == "right"
    return {key: Count(total[key], right[key]) for key in sorted(total)}


def surface_name(surface: str, streamed: bool) -> str:
    """A surface's column, ``chat`` or ``chat streamed``."""
    return f"{surface} streamed" if streamed else surface


def summary(verdicts: Sequence[Verdict], groups: dict[str, str]) -> dict[str, Any]:
    """A result's counts; ``groups`` gives each transcript's group. Wrong answers follow, parser's first."""
    wrong = [verdict for verdict in verdicts if verdict.kind != "right"]
    order = ("request", "parser", "unknown", "prompt", "model", "space")
    wrong.sort(key=lambda verdict: order.index(verdict.kind))
    everywhere = [verdict for verdict in verdicts if verdict.check == "everywhere"]
    return {
        "requests": len(verdicts),
        "right": len(verdicts) - len(wrong),
        "by_kind": dict(Counter(verdict.kind for verdict in verdicts)),
        "by_check": _plain(counts(verdicts, (v.check for v in verdicts))),
        "by_surface": _plain(
            counts(
                everywhere, (surface_name(v.surface, v.streamed) for v in everywhere)
            )
        ),
        "by_group": _plain(
            counts(everywhere, (groups[v.transcript] for v in everywhere))
        ),
        "wrong": [asdict(verdict) for verdict in _one_of_each(wrong)[:MOST_SHOWN]],
        "wrong_by_transcript": dict(
            Counter(f"{v.kind} {v.transcript} {v.check}" for v in wrong)
        ),
    }


def delivered_widths(verdicts: Sequence[Verdict]) -> dict[int, int]:
    """How many tokens the serving code was given at a time; wider than a burst when it was busy in between."""
    widths = Counter(width for verdict in verdicts for width in verdict.bursts)
    return dict(sorted(widths.items()))


def table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each result, right of all requests by surface, by group and by check, and the bursts."""
    groups = sorted({group for result in results for group in result["by_group"]})
    checks = sorted(
        {check for result in results for check in result["by_check"]} - {"everywhere"}
    )
    surfaces = [surface_name(*column) for column in _COLUMNS]
    head = ["wheel", "k", *surfaces, *groups, *checks, "acceptance", "burst widths"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in sorted(results, key=lambda r: (r["variant"], r["mtp"])):
        cells = [result["variant"], str(result["mtp"])]
        for part, keys in (
            ("by_surface", surfaces),
            ("by_group", groups),
            ("by_check", checks),
        ):
            cells += [_cell(result[part].get(key)) for key in keys]
        widths = " ".join(
            f"{width}:{count}" for width, count in result["burst_widths"].items()
        )
        cells += [
            f"{result['acceptance']:.0%}" if result["mtp"] else "–",
            widths or "–",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def keep(results: Sequence[dict[str, Any]]) -> None:
    """Keep the totals of results; the results stay in the build folder."""
    for result in results:
        totals.keep("cpu", result)


def read(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder."""
    return [
        json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.json"))
    ]


def _one_of_each(wrong: Sequence[Verdict]) -> list[Verdict]:
    """One wrong answer for each transcript, check, way of delivery and reason."""
    first: dict[tuple[object, ...], Verdict] = {}
    for verdict in wrong:
        first.setdefault(
            (
                verdict.kind,
                verdict.transcript,
                verdict.check,
                verdict.streamed,
                verdict.why,
            ),
            verdict,
        )
    return list(first.values())


def _plain(counted: dict[str, Count]) -> dict[str, dict[str, int]]:
    return {key: asdict(count) for key, count in counted.items()}


def _cell(count: dict[str, int] | None) -> str:
    return "not run" if count is None else f"{count['right']}/{count['requests']}"
