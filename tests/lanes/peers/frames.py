# SPDX-License-Identifier: Apache-2.0
"""Judges sloppy frames by what other engines deliver of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from conformance import check
from conformance.case import Call, Case
from conformance.guard import reason_of
from conformance.reading import Reading
from peers.asking import Readings

#: Not streamed, and at one token a step.
SCHEDULES = ["full", "w1"]
#: How many engines must agree.
LEAST = 2

#: A call's name, and its arguments as canonical JSON.
Delivered = tuple[tuple[str, str], ...]


@dataclass
class Finding:
    """A frame of which others deliver calls, and ours does worse.

    Attributes:
        harm: What it does to a client that expects what the others deliver.
        others: The engines that agree.
        calls: What they deliver.
        as_meant: Whether that is what the model meant.
        reason: The anchor of docs/format.md that says why; empty if none does.

    """

    case: Case
    harm: str
    others: list[str]
    calls: Delivered
    as_meant: bool
    ours: Reading
    reason: str

    def __str__(self) -> str:
        meant = "as meant" if self.as_meant else "not as meant"
        said = f" ({self.reason})" if self.reason else ""
        ours = [f"{call.name} {call.text}" for call in self.ours.calls]
        lines = [
            f"{self.case.name}: {self.harm}{said}",
            f"  {', '.join(self.others)}, {meant}: "
            + "; ".join(" ".join(call) for call in self.calls),
            f"  ours: {'; '.join(ours) or repr(self.ours.content)}",
        ]
        return "\n".join(lines)


def delivered(case: Case, reading: Reading) -> Delivered:
    """Return the calls that a client runs; none if one of them is refused, or if the
    response does not end in a call.
    """
    acts = check.acts(reading, case.run(case.starts[0]).expected)
    if reading.finish != "tool_calls" or any(act[0] != "runs" for act in acts):
        return ()
    return tuple((act[1], act[2]) for act in acts)


def judge(case: Case, ours: Reading, others: Mapping[str, Readings]) -> Finding | None:
    """Return what is wrong with ours: others agree on calls that satisfy the schemas,
    and ours are neither theirs nor what the model meant.
    """
    engines: dict[Delivered, list[str]] = {}
    for name, readings in others.items():
        for calls in {delivered(case, reading) for reading in readings.values()}:
            engines.setdefault(calls, []).append(name)
    agreed = {c: names for c, names in engines.items() if c and len(names) >= LEAST}
    meant = tuple((c.name, check.canonical(c.arguments)) for c in case.expected.calls)
    mine = delivered(case, ours)
    if not agreed or mine in (meant, *agreed):
        return None
    # What the model meant before what most deliver.
    calls = max(agreed, key=lambda calls: (calls == meant, len(agreed[calls])))
    want = case.expected.model_copy(
        update={
            "calls": [Call(name, json.loads(text)) for name, text in calls],
            "tools": case.tools,
        }
    )
    harm = check.worst(check.of_calls(ours, want)) or "lost"  # by its end alone
    reason = reason_of(case.name, harm)
    return Finding(case, harm, agreed[calls], calls, calls == meant, ours, reason)
