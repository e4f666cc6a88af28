# SPDX-License-Identifier: Apache-2.0
"""Judges sloppy frames by what other engines deliver of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from conformance import check
from conformance.case import Case
from conformance.guard import rank, reason_of
from conformance.reading import Reading
from peers.asking import Readings

#: Not streamed, and at one token a step.
SCHEDULES = ["full", "w1"]
#: How many engines must agree; one whose parser is another's is the same engine.
LEAST, SAME = 2, {"mlx-vlm": "mlx-lm"}

#: A call's name, and its arguments as canonical JSON.
Delivered = tuple[tuple[str, str], ...]


@dataclass
class Finding:
    """A frame of which others agree on calls, and ours does more harm.

    Attributes:
        harm: That of ours, by what the model meant.
        others: The engines that agree, and their harm; empty for none.
        calls: What they deliver.
        reason: The anchor of docs/format.md that says why; empty if none does.

    """

    case: Case
    ours: Reading
    harm: str
    others: tuple[list[str], str]
    calls: Delivered
    reason: str

    def __str__(self) -> str:
        names, harm = self.others
        reason = f" ({self.reason})" if self.reason else ""
        calls = [f"{call.name} {call.text}" for call in self.ours.calls]
        lines = [
            f"{self.case.name}: {harm or 'right'} -> {self.harm}{reason}",
            f"  {', '.join(names)}: "
            + "; ".join(" ".join(call) for call in self.calls),
            f"  ours: {'; '.join(calls) or repr(self.ours.content)}",
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
    and ours does a client that is to run what the model meant more harm.
    """
    want = case.run(case.starts[0]).expected
    agreed: dict[Delivered, dict[str, Reading]] = {}
    for name, readings in others.items():
        for reading in readings.values():
            agreed.setdefault(delivered(case, reading), {})[name] = reading
    groups = [
        (check.worst(check.differences(next(iter(by_name.values())), want)), calls)
        for calls, by_name in agreed.items()
        if calls and len({SAME.get(name, name) for name in by_name}) >= LEAST
    ]
    harm = check.worst(check.differences(ours, want))
    theirs, calls = max(groups, key=lambda group: rank(group[0]), default=("ran", ()))
    if rank(harm) >= rank(theirs):
        return None
    agree = [*agreed[calls]], theirs
    return Finding(case, ours, harm, agree, calls, reason_of(case.name, harm))
