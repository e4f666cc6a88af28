"""Compares a reading with what a case expects, and says what matched and what came next."""

from __future__ import annotations

import json
from typing import Any

from conformance.case import Call, Expected
from conformance.reading import FRAME_TAGS, ReadCall, Reading


def _diverge(what: str, got: str, want: str) -> str:
    """Where two texts part: what matched, what came next, what was expected."""
    at = next(
        (i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b),
        min(len(got), len(want)),
    )
    before = want[max(0, at - 40) : at]
    return f"{what}: matched {before!r}, then came {_next(got, at)}, expected {_next(want, at)}"


def _next(text: str, at: int) -> str:
    rest = text[at : at + 60]
    return repr(rest) + ("…" if len(text) > at + 60 else "") if rest else "the end"


def canonical(value: Any) -> str:
    """JSON text with keys sorted, for comparing parsed arguments. ``1``, ``true`` and ``"1"`` stay different; ``1.0`` is the
    number ``1`` to JSON, whichever way a reader stores it."""
    return json.dumps(_numbers(value), ensure_ascii=False, sort_keys=True)


def _numbers(value: Any) -> Any:
    """The value with whole floats as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    return [_numbers(v) for v in value] if isinstance(value, list) else value


def _calls(reading: Reading, want: Expected) -> list[Call]:
    """The expected calls that the form of the response can hold."""
    return [c for c in want.calls if not (c.cut and reading.omits_cut)]


def _told(call: ReadCall) -> str:
    """What a call was told: its parsed arguments, or the text that is no JSON."""
    return (
        call.text
        if call.text is not None and call.parsed is None
        else canonical(call.parsed)
    )


def _wanted(call: Call) -> str:
    return (
        canonical(call.arguments) if call.argument_text is None else call.argument_text
    )


def broken(reading: Reading, want: Expected) -> list[str]:
    """The broken invariants. The arguments of a call that is cut, and no others, may be no JSON."""
    cut = tuple(f"valid-json: call {i}: " for i, c in enumerate(want.calls) if c.cut)
    return [b for b in reading.broken if not (cut and b.startswith(cut))]


def compare(reading: Reading, want: Expected) -> list[str]:
    """Differences from the expected message; empty when it is right."""
    out = []
    if reading.reasoning != want.reasoning:
        out.append(_diverge("reasoning", reading.reasoning, want.reasoning))
    if reading.content != want.content:
        out.append(_diverge("content", reading.content, want.content))
    calls = _calls(reading, want)
    got, expected = [c.name for c in reading.calls], [c.name for c in calls]
    if got != expected:
        out.append(f"calls: got {got}, expected {expected}")
    for i, (a, b) in enumerate(zip(reading.calls, calls, strict=False)):
        seen = a.text if b.cut and a.text is not None else _told(a)
        if seen != _wanted(b):
            out.append(_diverge(f"arguments of call {i}", seen, _wanted(b)))
        if a.status is not None and (a.status == "incomplete") != b.cut:
            out.append(f"call {i} is {a.status}, and {'cut' if b.cut else 'whole'}")
    if reading.finish != want.finish_reason:
        out.append(
            f"finish reason: got {reading.finish}, expected {want.finish_reason}"
        )
    for tag in FRAME_TAGS:
        for what, text, allowed in (
            ("content", reading.content, want.content),
            ("reasoning", reading.reasoning, want.reasoning),
        ):
            if text.count(tag) > allowed.count(tag):
                out.append(f"frame text {tag} in {what}")
    return out


def same(streamed: Reading, whole: Reading) -> list[str]:
    """What differs between a streamed and a whole response to the same output."""
    out = []
    for what in ("reasoning", "content"):
        if getattr(streamed, what) != getattr(whole, what):
            out.append(
                _diverge(
                    f"streamed and not streamed, {what}",
                    getattr(streamed, what),
                    getattr(whole, what),
                )
            )
    a = [
        (c.name, c.text if c.text is not None and _text(whole) else canonical(c.parsed))
        for c in streamed.calls
        if not (whole.omits_cut and c.text is not None and c.parsed is None)
    ]
    b = [
        (
            c.name,
            c.text if c.text is not None and _text(streamed) else canonical(c.parsed),
        )
        for c in whole.calls
    ]
    if a != b:
        out.append(
            f"streamed and not streamed, calls: {str(a)[:160]} and {str(b)[:160]}"
        )
    if streamed.finish != whole.finish:
        out.append(
            f"streamed and not streamed, finish reason: {streamed.finish} and {whole.finish}"
        )
    return out


def _text(reading: Reading) -> bool:
    """Whether the surface gave the arguments as text."""
    return all(c.text is not None for c in reading.calls)


def only_white_space(reading: Reading, want: Expected) -> bool:
    """Whether nothing but white space at the ends of content or reasoning is wrong. Such a response is wrong all the same;
    it is counted apart because it harms less than a lost call."""
    return (
        not broken(reading, want)
        and reading.reasoning.strip() == want.reasoning.strip()
        and reading.content.strip() == want.content.strip()
        and [(c.name, _told(c)) for c in reading.calls]
        == [(c.name, _wanted(c)) for c in _calls(reading, want)]
        and reading.finish == want.finish_reason
    )
