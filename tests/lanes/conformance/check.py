# SPDX-License-Identifier: Apache-2.0
"""Judges a reading by harm: what differs from what a case expects, and how bad that is.

``right`` is a response whose message, as the SDK assembles it, is the expected one;
what is wrong in its form alone, which no SDK minds, is counted apart.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from conformance.case import Call, Expected
from conformance.reading import ReadCall, Reading

HARMS = ("ran", "bytes", "lost", "text", "form")
"""From the worst (docs/format.md): something ran that was not asked for, or a cut call
looks whole; a call came with other values; a call or the whole message was lost; text
was lost or came in the wrong place; form alone."""

Found = tuple[str, str]
"""A harm and why."""


def diverge(what: str, got: str, want: str) -> str:
    """Where two texts part: what matched, what came next, what was expected."""
    pairs = enumerate(zip(got, want, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(got), len(want)))
    before = want[max(0, at - 40) : at]
    came, expected = _next(got, at), _next(want, at)
    return f"{what}: matched {before!r}, then came {came}, expected {expected}"


def _next(text: str, at: int) -> str:
    rest = text[at : at + 60]
    more = "…" if len(text) > at + 60 else ""
    return repr(rest) + more if rest else "the end"


def canonical(value: Any) -> str:
    """JSON text for comparing parsed arguments: keys sorted, 1.0 as 1.

    1, true and "1" stay different.
    """
    return json.dumps(_numbers(value), ensure_ascii=False, sort_keys=True)


def _numbers(value: Any) -> Any:
    """The value with whole floats as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    return [_numbers(v) for v in value] if isinstance(value, list) else value


def worst(found: Iterable[Found]) -> str:
    """The worst harm of some; empty if there is none."""
    return min((harm for harm, _ in found), key=HARMS.index, default="")


def problems(reading: Reading, want: Expected) -> list[Found]:
    """All that is wrong with a response."""
    # The arguments of a call that is cut, and no others, may be no JSON.
    cut = tuple(f"valid-json: call {i}: " for i, c in enumerate(want.calls) if c.cut)
    broken = [b for b in reading.broken if not (cut and b.startswith(cut))]
    failed = [("lost", reading.failed)] if reading.failed else []
    # Some clients read the items of a stream, others its last event.
    form = [("text" if b.startswith("final-output") else "form", b) for b in broken]
    return failed + differences(reading, want) + form


def differences(reading: Reading, want: Expected) -> list[Found]:
    """How the message differs from the expected one."""
    found = []
    for what in ("reasoning", "content"):
        got, expected = getattr(reading, what), getattr(want, what)
        if got != expected:
            harm = "form" if got.split() == expected.split() else "text"
            found.append((harm, diverge(what, got, expected)))
    calls = list(want.calls)
    # A form without a place for a call that is cut leaves it out.
    if calls and calls[-1].cut and reading.omits_cut:
        made = calls[-1].closed and len(reading.calls) == len(calls)
        calls = calls if made else calls[:-1]
    found += _calls(reading.calls, calls, want.declared)
    if reading.finish != want.finish_reason:
        # Without it, or with another, an agent runs no call.
        harm = "lost" if want.finish_reason == "tool_calls" else "text"
        why = f"got {reading.finish}, expected {want.finish_reason}"
        found.append((harm, f"finish reason: {why}"))
    return found


def _calls(
    got: list[ReadCall], want: list[Call], declared: tuple[str, ...] | None
) -> Iterator[Found]:
    made = Counter(call.name for call in got)
    asked = Counter(call.name for call in want)
    # A client runs no tool that it does not have.
    runs = Counter(
        call.name
        for call in got
        if _given(call) is not None and (declared is None or call.name in declared)
    )
    names = f"got {[call.name for call in got]}, expected {[c.name for c in want]}"
    if runs - asked:
        yield "ran", f"calls: {names}"
    elif asked - made:
        yield "lost", f"calls: {names}"
    elif [call.name for call in got] != [call.name for call in want]:
        yield "text", f"calls: {names}"
    by_name = defaultdict(list)
    for read in got:
        by_name[read.name].append(read)
    for i, call in enumerate(want):
        if by_name[call.name]:
            read = by_name[call.name].pop(0)
            yield from _arguments(f"call {i}", read, call)


def _given(call: ReadCall) -> Any:
    """The arguments that a client has of a call; None if it can read none."""
    return call.parsed if call.opened is None else call.opened


def _arguments(what: str, got: ReadCall, want: Call) -> Iterator[Found]:
    """How one call differs from the one that was expected in its place."""
    if want.argument_text is not None:
        if got.parsed is not None:
            # It is what the model said, if nothing behind it changes that.
            harm = "form" if want.closed else "ran"
            yield harm, f"{what} was cut and looks whole: {canonical(got.parsed)}"
        elif got.text != want.argument_text:
            yield "text", diverge(what, got.text or "", want.argument_text)
    elif (given := _given(got)) is None:
        yield (
            "lost",
            f"{what}: arguments are no JSON object: {(got.text or '')[-80:]!r}",
        )
    elif canonical(given) != canonical(want.arguments):
        expected = canonical(want.arguments)
        yield "bytes", diverge(f"arguments of {what}", canonical(given), expected)
    if got.status is not None and (got.status == "incomplete") != want.cut:
        harm = "form" if want.cut else "lost"
        yield harm, f"{what} is {got.status}, and {'cut' if want.cut else 'whole'}"


def same(streamed: Reading, whole: Reading) -> list[Found]:
    """What differs between a streamed and a whole response to the same output."""
    if streamed.failed or whole.failed:
        return []
    found = []
    for what in ("reasoning", "content", "finish"):
        got, want = getattr(streamed, what) or "", getattr(whole, what) or ""
        if got != want:
            found.append(diverge(f"streamed and not streamed, {what}", got, want))
    calls = [_told(call, whole) for call in streamed.calls]
    if whole.omits_cut:
        calls = [
            c
            for c, r in zip(calls, streamed.calls, strict=True)
            if r.parsed is not None
        ]
    others = [_told(call, streamed) for call in whole.calls]
    if calls != others:
        both = f"{str(calls)[:160]} and {str(others)[:160]}"
        found.append(f"streamed and not streamed, calls: {both}")
    return [("form", each) for each in found]


def _told(call: ReadCall, other: Reading) -> tuple[str, str]:
    """A call by its text, or by its arguments if the other form has no texts."""
    texts = call.text is not None and all(c.text is not None for c in other.calls)
    return call.name, call.text or "" if texts else canonical(call.parsed)
