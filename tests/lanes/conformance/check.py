"""Compares a reading with what a case expects, and says what matched and what came next."""

from __future__ import annotations

import json
from typing import Any

from conformance.case import Expected
from conformance.reading import FRAME_TAGS, Reading


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


def compare(reading: Reading, want: Expected) -> list[str]:
    """Differences from the expected message; empty when it is right."""
    out = []
    if reading.reasoning != want.reasoning:
        out.append(_diverge("reasoning", reading.reasoning, want.reasoning))
    if reading.content != want.content:
        out.append(_diverge("content", reading.content, want.content))
    got, expected = [c.name for c in reading.calls], [c.name for c in want.calls]
    if got != expected:
        out.append(f"calls: got {got}, expected {expected}")
    for i, (a, b) in enumerate(zip(reading.calls, want.calls, strict=False)):
        if canonical(a.parsed) != canonical(b.arguments):
            seen = (
                a.text
                if a.text is not None and a.parsed is None
                else canonical(a.parsed)
            )
            out.append(_diverge(f"arguments of call {i}", seen, canonical(b.arguments)))
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
        not reading.broken
        and reading.reasoning.strip() == want.reasoning.strip()
        and reading.content.strip() == want.content.strip()
        and [(c.name, canonical(c.parsed)) for c in reading.calls]
        == [(c.name, canonical(c.arguments)) for c in want.calls]
        and reading.finish == want.finish_reason
    )
