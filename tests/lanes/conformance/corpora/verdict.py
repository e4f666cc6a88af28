"""Judges a reading by harm."""

from __future__ import annotations

import enum
from collections import Counter

from conformance.corpora.case import Call, Case
from conformance.corpora.reader import ReadCall, Reading


class Verdict(enum.Enum):
    """How a reading compares with the intended one."""

    RIGHT = "right"
    TEXT = "text"  # the calls are right, but text was lost or went astray
    WRONG = "wrong"


def judge(case: Case, read: Reading) -> tuple[Verdict, bool]:
    """The verdict, and whether something ran that was only quoted."""
    quoted = ran_quoted(case, read)
    if case.cut or case.ended:
        right = not quoted and not read.broken and _cut_right(case, read)
        return (Verdict.RIGHT if right else Verdict.WRONG), quoted
    if read.broken or [(c.name, c.final()) for c in read.calls] != [
        (call.name, dict(call.values)) for call in case.calls
    ]:
        return Verdict.WRONG, quoted
    for text, meant in (
        (read.content, case.content),
        (read.reasoning, case.reasoning),
    ):
        if meant is not None and text.split() != meant.split():
            return Verdict.TEXT, quoted
    return Verdict.RIGHT, quoted


def ran_quoted(case: Case, read: Reading) -> bool:
    """Whether a call ran that the output only quotes.

    A quoted call that was cut short is no better than a whole one: what counts is
    that its tool is called more often than the model did.
    """
    names = {call.name for call in case.quoted}
    meant = Counter(call.name for call in case.calls)
    ran = Counter(call.name for call in read.calls)
    if any(ran[name] > meant[name] for name in names):
        return True
    return any(
        call in case.quoted and call not in case.calls
        for call in (Call(c.name, c.final()) for c in read.calls)
    )


def _cut_right(case: Case, read: Reading) -> bool:
    """Whether nothing cut looks whole, and what was whole stayed so."""
    certain, possible = case.whole
    if not certain <= len(read.calls) <= len(case.calls):
        return False
    for number, (call, meant) in enumerate(zip(read.calls, case.calls, strict=False)):
        if number < certain or (number < possible and call.whole):
            last = list(meant.values.items())[: len(call.values)]
            if number < certain:
                last = list(meant.values.items())
            whole = [(value.key, value.text) for value in call.values]
            if call.name != meant.name or not call.whole or whole != last:
                return False
        elif call.whole or number + 1 < len(read.calls) or not _begins(call, meant):
            return False
    return True


def _begins(call: ReadCall, meant: Call) -> bool:
    """Whether a call that was cut says a beginning of what was meant."""
    items = list(meant.values.items())
    if call.name != meant.name or len(call.values) > len(items):
        return False
    for value, (key, text) in zip(call.values, items, strict=False):
        exact = value.closed or value is not call.values[-1]
        same = value.text == text if exact else text.startswith(value.text)
        if value.key != key or not same:
            return False
    return True
