# SPDX-License-Identifier: Apache-2.0
"""What the user sees of a run: a table, and a short judgement against what the patches promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.subjects import SHORT

Document = dict[str, Any]

#: Growth of the patched cost per token from 4 000 to 256 000 tokens that still counts as linear.
LINEAR = 1.2


@dataclass(frozen=True)
class Promise:
    """A bound of the ratio to another subject, in the cells that it is about."""

    title: str
    other: str
    most: float
    about: Callable[[Document], bool]


PROMISES = (
    Promise("parser over stock", "stock", 0.25, lambda cell: cell["path"] == "parser"),
    Promise("service over stock", "stock", 1.0, lambda cell: cell["path"] == "serving"),
    Promise(
        "prose over doing nothing, in the service",
        "nothing",
        1.05,
        lambda cell: cell["path"] == "serving",
    ),
    Promise(
        "prose over doing nothing, in the parser",
        "nothing",
        1.05,
        lambda cell: cell["path"] == "parser",
    ),
    Promise(
        "1 000 tokens over SGLang", "sglang", 1.0, lambda cell: cell["tokens"] == 1_000
    ),
)


def cost(subject: Document | None) -> str:
    """One subject's entry: microseconds per token with its extremes, or why there are none."""
    if subject is None:
        return "–"
    if "error" in subject:
        return "error"
    if "us_per_token" not in subject:
        at = subject.get("bounded_at")
        return f"given up at {at}" if at is not None else _other(subject)
    median, low, high = subject["us_per_token"]
    if subject.get("bounded_at") is not None:
        return f"> {median:.3g}"
    return f"{median:.3g} ({low:.3g}–{high:.3g})"


def _other(subject: Document) -> str:
    if "peak_bytes" in subject:
        held = (
            f"{subject['held_bytes'] / 1000:.0f} kB held, "
            if "held_bytes" in subject
            else ""
        )
        return f"{held}{subject['peak_bytes'] / 1000:.0f} kB at most"
    waits = "never" if subject.get("waits") is None else f"{subject['waits']} steps"
    return waits if subject.get("right") else f"{waits}, wrong"


def compared(found: Document) -> str:
    """A ratio with its interval; of a bounded one its upper limit."""
    if found.get("at_most"):
        return f"< {found['value']:.2g}"
    return f"{found['value']:.2f} ({found['low']:.2f}–{found['high']:.2f})"


def table(release: str, rows: list[Document], subjects: list[str]) -> Table:
    """One line a cell: µs a token of every subject (median, least, greatest), then the ratios."""
    out = Table(
        title=f"{release}: µs per token; patched over the others: median ratio (95 % interval)"
    )
    for name in ("path", "workload", "tokens", "width"):
        out.add_column(name)
    others = [name for name in subjects if name != "patched"]
    for name in subjects:
        out.add_column(name)
    for name in others:
        out.add_column(f"/ {name}")
    for row in rows:
        out.add_row(
            row["path"],
            row["workload"],
            str(row["tokens"]),
            str(row["width"]),
            *(cost(row["subjects"].get(name)) for name in subjects),
            *(
                compared(row["ratios"][name]) if name in row["ratios"] else ""
                for name in others
            ),
        )
    return out


def growth(rows: list[Document]) -> list[tuple[str, float]]:
    """For each patched family: its name, and the cost per token at 256 000 over that at 4 000 in the same rounds."""
    return [
        (
            f"{row['path']} {row['workload']} width {row['width']}",
            row["ratios"][SHORT]["value"],
        )
        for row in rows
        if SHORT in row["ratios"]
    ]


def notes(rows: list[Document]) -> list[str]:
    """What stands out: growth, cells in which the patched tree costs more than stock, and what went wrong."""
    out = []
    if grown := growth(rows):
        name, worst = max(grown, key=lambda pair: pair[1])
        out.append(
            f"patched, 256 000 over 4 000 tokens: at most {worst:.2f} ({name}; promised {LINEAR})"
        )
    out += [line for promise in PROMISES if (line := keeping(promise, rows))]
    for row in rows:
        where = f"{row['path']} {row['workload']} {row['tokens']} width {row['width']}"
        out += failures([row])
        if row["subjects"].get("patched", {}).get("bounded_at") is not None:
            out.append(f"{where}: patched was given up")
        stock = row["ratios"].get("stock")
        if stock and stock["low"] > 1 and not stock.get("at_most"):
            out.append(f"{where}: above stock, {compared(stock)}")
    return out


def keeping(promise: Promise, rows: list[Document]) -> str | None:
    """How many cells keep a promise, and the one with the greatest ratio; ``None`` without a cell that it is about.

    An upper limit above the bound decides nothing: the other was given up before it had cost that much.
    """
    found = []
    for row in rows:
        ratio = row["ratios"].get(promise.other)
        if (
            ratio
            and promise.about(row)
            and not (ratio.get("at_most") and ratio["value"] > promise.most)
        ):
            found.append((ratio["value"], row))
    if not found:
        return None
    worst, row = max(found, key=lambda pair: pair[0])
    within = sum(value <= promise.most for value, _ in found)
    cell = f"{row['path']} {row['workload']} {row['tokens']} width {row['width']}"
    return f"{promise.title}: {within} of {len(found)} cells at most {promise.most}; at most {worst:.2f} ({cell})"


def failures(rows: list[Document]) -> list[str]:
    """What was to be measured and raised instead."""
    return [
        f"{row['path']} {row['workload']} {row['tokens']} width {row['width']}: {name} failed: {subject['error']}"
        for row in rows
        for name, subject in row["subjects"].items()
        if "error" in subject
    ]
