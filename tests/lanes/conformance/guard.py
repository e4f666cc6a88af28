# SPDX-License-Identifier: Apache-2.0
"""Never worse than stock: the harm of both trees' responses, case by case."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from conformance.adapters import Result
from conformance.case import Case
from conformance.check import HARMS, Act
from conformance.report import group, harms_of

#: At k = 0, 3 and 5; each case is asked not streamed as well.
SCHEDULES = r"w1|mtp[35]#0"

#: Why a case is worse, by name or glob: an anchor of docs/format.md.
REASONS = Path(__file__).with_name("guard.json")


@dataclass
class Worse:
    """A case of which the patched tree's responses do more harm.

    Attributes:
        stock: The worst harm of stock's responses where patched is worse.
        where: Surface, start and schedule of each such response.
        reason: The anchor that says why; empty if none does.

    """

    case: str
    stock: str
    patched: str
    where: list[str]
    problems: list[str]
    reason: str = ""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        first, more = self.where[0], len(self.where) - 1
        lines = [
            f"{self.case}: {self.stock or 'right'} -> {self.patched}{reason}",
            f"  {first}{f' and {more} more' if more else ''}",
        ]
        return "\n".join(lines + [f"  {line}" for line in self.problems])


def compare(
    cases: Iterable[Case], stock: list[Result], patched: list[Result]
) -> tuple[list[Worse], dict[str, Counter[str]]]:
    """Return cases that are worse; and of the suite and each corpus the number of
    ``cases``, how many are ``worse``, of these ``reasoned``, and how many are
    ``better``.

    Args:
        stock: The results of the host for the stock tree.
        patched: Those for the patched tree.

    """
    known = {case.name: case for case in cases}
    before = {_key(result): result for result in stock}
    by_case: dict[str, list[tuple[str, str, str, list[str]]]] = {}
    better = set()
    for result in patched:
        other = before.get(_key(result))
        if other is None:  # no host answered
            continue
        case = known[result["case"]]
        rows = by_case.setdefault(case.name, [])
        for schedule, old, new, why in _pairs(case, other, result):
            if rank(new) < rank(old):
                where = f"{result['surface']} {result['start']} {schedule}"
                rows.append((where, old, new, why))
            elif rank(new) > rank(old):
                better.add(case.name)
    worse, counts = [], dict[str, Counter[str]]()
    for name, rows in by_case.items():
        count = counts.setdefault(group(name), Counter())
        count["cases"] += 1
        if not rows:
            count["better"] += name in better
            continue
        _, old, new, why = min(rows, key=lambda row: rank(row[2]))
        reason = reason_of(name, new)
        worse.append(Worse(name, old, new, [row[0] for row in rows], why, reason))
        count["worse"] += 1
        count["reasoned"] += bool(reason)
    worse.sort(key=lambda row: (bool(row.reason), rank(row.patched), row.case))
    return worse, counts


def reason_of(name: str, harm: str) -> str:
    """Return the anchor that says why a case is worse; empty if none does.

    What ran is excused by name alone.
    """
    reasons: dict[str, str] = json.loads(REASONS.read_text(encoding="utf-8"))
    for pattern, reason in reasons.items():
        if name == pattern or (harm != "ran" and fnmatch(name, pattern)):
            return reason
    return ""


def _key(result: dict[str, Any]) -> tuple[str, str, str]:
    return result["case"], result["surface"], result["start"]


def rank(harm: str) -> int:
    """Return a number that is lower the worse a harm is."""
    return HARMS.index(harm) if harm else len(HARMS)


def _pairs(
    case: Case, stock: dict[str, Any], patched: dict[str, Any]
) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield each schedule, both harms, and why patched is wrong."""
    before, after = dict(harms_of(stock)), dict(harms_of(patched))
    for schedule, new in after.items():
        old = before.get(schedule)
        if old is None or not re.fullmatch(f"full|{SCHEDULES}", schedule):
            continue
        why = patched["wrong"].get(schedule, ["", ""])[1:]
        if case.class_ == "implementation-defined":
            (was, ours), (now, theirs) = (
                each["acts"].get(schedule, ("lost", [])) for each in (stock, patched)
            )
            if not case.expected.calls or case.expected.calls[-1].cut:
                was, now = "", _unknown(case, ours, theirs)
            old, new = (min(two, key=rank) for two in ((old, was), (new, now)))
            why = [*why, f"stock: {ours}", f"patched: {theirs}"]
        yield schedule, old, new, why


def _unknown(case: Case, stock: list[Act], patched: list[Act]) -> str:
    """Return what is worse where nobody knows what was meant: to run more than stock,
    or less, or to be silent where stock is refused.
    """
    old, new = _runs(stock), _runs(patched)
    if new - old:
        return "ran"
    if case.end != "stop":  # the client is told that the output was cut
        return ""
    tried = any(act[0] == "refused" for act in patched)
    if old - new:
        return "refused" if tried else "lost"
    silent = any(act[0] == "refused" for act in stock) and not tried
    return "lost" if silent and not new else ""


def _runs(acts: list[Act]) -> Counter[tuple[str, str]]:
    return Counter((name, text) for kind, name, text in acts if kind == "runs")
