# SPDX-License-Identifier: Apache-2.0
"""A run as a table, and its cells against what the patches promise."""

from typing import Any

import results

Document = dict[str, Any]

#: (path, the other subject, the most that patched may cost of it); None is any path.
PROMISES = (
    ("parser", "stock", 0.2),
    ("chat", "stock", 1.0),
    ("messages", "stock", 1.0),
    ("responses", "stock", 1.0),
    (None, "short", 1.2),
)


def table(release: str, rows: list[Document]) -> str:
    """Return one line a cell: µs a token of every subject, then patched over the
    others, with the interval of 95 %.
    """
    names = list(dict.fromkeys(name for row in rows for name in row["subjects"]))
    lines = [
        [
            _where(row),
            *(cost(row["subjects"].get(name, {})) for name in names),
            *(compared(row["ratios"].get(name)) for name in names[1:]),
        ]
        for row in rows
    ]
    head = [f"{release}, µs a token", *names, *(f"/ {name}" for name in names[1:])]
    return results.table(" | ".join(head), lines)


def _where(row: Document) -> str:
    return " ".join(str(row[key]) for key in ("path", "workload", "tokens", "width"))


def cost(subject: Document) -> str:
    """Return microseconds a token with its extremes, a lower bound, or why there is
    none.
    """
    if "us_per_token" not in subject:
        return f"given up at {subject['bounded_at']}" if subject else "–"
    median, low, high = subject["us_per_token"]
    if "bounded_at" in subject:
        return f"> {median:.3g}"
    return f"{median:.3g} ({low:.3g}–{high:.3g})"


def compared(found: Document | None, form: str = ".2f") -> str:
    """Return a ratio with its interval; of a bounded one its upper limit."""
    if found is None:
        return ""
    if found.get("at_most"):
        return f"< {found['value']:.2g}"
    value, low, high = (format(found[name], form) for name in ("value", "low", "high"))
    return f"{value} ({low}–{high})"


def notes(rows: list[Document]) -> list[str]:
    """Return how many cells keep each promise, and the one that is furthest from it.

    An upper limit above the bound decides nothing: the other was given up before it had
    cost that much.
    """
    out = []
    for path, other, most in PROMISES:
        found = [
            (ratio["value"], _where(row))
            for row in rows
            if path in (None, row["path"]) and (ratio := row["ratios"].get(other))
            if not (ratio.get("at_most") and ratio["value"] > most)
        ]
        if found:
            worst, where = max(found)
            within = sum(value <= most for value, _ in found)
            out.append(
                f"{path or 'any path'} over {other}: {within} of {len(found)} cells at "
                f"most {most}; at most {worst:.2f} ({where})"
            )
    return out
