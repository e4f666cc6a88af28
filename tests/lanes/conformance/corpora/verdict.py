# SPDX-License-Identifier: Apache-2.0
"""Judges a reading by harm."""

import enum
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from conformance.corpora.case import Call, Case, arguments
from conformance.corpora.reader import ReadCall, Reading


class Verdict(enum.Enum):
    """How a reading compares with the intended one."""

    RIGHT = "right"
    TEXT = "text"  # the calls are right, but text was lost or went astray
    WRONG = "wrong"


def judge(case: Case, read: Reading, *, served: bool = False) -> tuple[Verdict, bool]:
    """The verdict, and whether something ran that was only quoted.

    Args:
        case: The case.
        read: What was read of its output.
        served: Whether a server read it, which gives values their types.

    """
    meant = [(c.name, _values(case, c, served)) for c in case.calls]
    quoted = _ran_quoted(case, meant, read, served)
    if case.cut or case.ended:
        right = not quoted and not read.broken and _cut_right(case, meant, read)
        return (Verdict.RIGHT if right else Verdict.WRONG), quoted
    got = [(call.name, call.final()) for call in read.calls]
    whole = all(call.whole for call in read.calls)
    if read.broken or not whole or not _same(got, meant):
        return Verdict.WRONG, quoted
    for text, intended in (
        (read.content, case.content),
        (read.reasoning, case.reasoning),
    ):
        if intended is not None and text.split() != intended.split():
            return Verdict.TEXT, quoted
    return Verdict.RIGHT, quoted


_Meant = list[tuple[str, Mapping[str, Any]]]


def _values(case: Case, call: Call, served: bool) -> Mapping[str, Any]:
    return arguments(case, call) if served else dict(call.values)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same to JSON, to which 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _ran_quoted(case: Case, meant: _Meant, read: Reading, served: bool) -> bool:
    """Whether a call ran that the output only quotes.

    A quoted call that was cut short is no better than a whole one: what counts is
    that its tool is called more often than the model did.
    """
    names = {call.name for call in case.quoted}
    wanted = Counter(name for name, _ in meant)
    ran = Counter(call.name for call in read.calls)
    if any(ran[name] > wanted[name] for name in names):
        return True
    quoted = [(call.name, _values(case, call, served)) for call in case.quoted]
    got = [(call.name, call.final()) for call in read.calls]
    return any(call in quoted and call not in meant for call in got)


def _cut_right(case: Case, meant: _Meant, read: Reading) -> bool:
    """Whether nothing cut looks whole, and what was whole stayed so."""
    certain, possible = case.whole
    if not certain <= len(read.calls) <= len(meant):
        return False
    for number, call in enumerate(read.calls):
        name, values = meant[number]
        if call.name != name:
            return False
        if number < certain or (number < possible and call.whole):
            # The model may have ended a call before its last parameters.
            count = len(values) if number < certain else len(call.values)
            said = dict(list(values.items())[:count])
            if not call.whole or not _same(call.final(), said):
                return False
        elif call.whole or number + 1 < len(read.calls) or not _begins(call, values):
            return False
    return True


def _begins(call: ReadCall, meant: Mapping[str, Any]) -> bool:
    """Whether a call that was cut says a beginning of what was meant."""
    if call.open_text is not None:
        return _begins_json(call.open_text, json.dumps(meant, ensure_ascii=False))
    items = list(meant.items())
    if len(call.values) > len(items):
        return False
    for value, (key, text) in zip(call.values, items, strict=False):
        exact = value.closed or value is not call.values[-1]
        same = value.text == text if exact else text.startswith(value.text)
        if value.key != key or not same:
            return False
    return True


def _begins_json(text: str, whole: str) -> bool:
    """Whether a JSON text is the beginning of another, spaces between apart."""
    tight, whole = (re.sub(r"(?<=[,:{])\s+", "", t) for t in (text, whole))
    rest = whole[len(tight) :]
    # Half a number is another number.
    number = re.search(r"[:,\[]-?\d+\Z", tight) and rest[:1].isdigit()
    return whole.startswith(tight) and bool(rest) and not number
