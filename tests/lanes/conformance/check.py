# SPDX-License-Identifier: Apache-2.0
"""Judges a reading by harm: what differs from what a case expects, and how bad that is.

``right`` is a response whose message, as the SDK assembles it, is the expected one;
what is wrong in its form alone, which no SDK minds, is counted apart.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from conformance.case import TYPES, Call, Expected, Tool
from conformance.reading import ReadCall, Reading

#: From the worst (docs/format.md): something ran that was not asked for, or a cut call
#: looks whole; a call came with other values; a call or the whole message was lost;
#: text was lost or came in the wrong place; a call that its tool's schema rejects, so
#: that the model tries again; form alone.
HARMS = ("ran", "bytes", "lost", "text", "refused", "form")

#: What some clients die of, though OpenAI's SDK does not mind it: no patched release
#: may show it, and stock is not counted as wrong.
FATAL_FORM = ("first-arguments",)

#: A harm and why.
Found = tuple[str, str]
#: What a client does with a call (see ``does``), its name, and its arguments.
Act = list[str]


def diverge(label: str, got: str, want: str) -> str:
    """Return where two texts part: what matched, what came next, what was expected."""
    pairs = enumerate(zip(got, want, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(got), len(want)))
    before = want[max(0, at - 40) : at]
    came, expected = _next(got, at), _next(want, at)
    return f"{label}: matched {before!r}, then came {came}, expected {expected}"


def _next(text: str, at: int) -> str:
    rest = text[at : at + 60]
    more = "…" if len(text) > at + 60 else ""
    return repr(rest) + more if rest else "the end"


def canonical(value: Any) -> str:
    """Return JSON text for comparing parsed arguments: keys sorted, 1.0 as 1.

    1, true and "1" stay different.
    """
    return json.dumps(_numbers(value), ensure_ascii=False, sort_keys=True)


def _numbers(value: Any) -> Any:
    """Return the value with whole floats as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    return [_numbers(v) for v in value] if isinstance(value, list) else value


def worst(problems: Iterable[Found]) -> str:
    return min((harm for harm, _ in problems), key=HARMS.index, default="")


def problems(reading: Reading, want: Expected) -> list[Found]:
    # The arguments of a call that is cut, and no others, may be no JSON.
    cut = tuple(
        f"valid-json: call {i}: "
        for i, c in enumerate(want.calls)
        if c.cut or (want.whole and i >= want.whole[0])
    )
    broken = [b for b in reading.broken if not (cut and b.startswith(cut))]
    failed = [("lost", reading.failed)] if reading.failed else []
    # Some clients read the items of a stream, others its last event.
    form = [("text" if b.startswith("final-output") else "form", b) for b in broken]
    return failed + differences(reading, want) + form


def differences(reading: Reading, want: Expected) -> list[Found]:
    problems = []
    for part in ("reasoning", "content"):
        got, expected = getattr(reading, part), getattr(want, part)
        if expected is None or got == expected:
            continue
        spaces = got.split() == expected.split()
        if not (spaces and want.loose):
            harm = "form" if spaces else "text"
            problems.append((harm, diverge(part, got, expected)))
    problems += of_calls(reading, want)
    if want.finish_reason and reading.finish != want.finish_reason:
        # Without it, or with another, an agent runs no call.
        harm = "lost" if want.finish_reason == "tool_calls" else "text"
        why = f"got {reading.finish}, expected {want.finish_reason}"
        problems.append((harm, f"finish reason: {why}"))
    return problems


def of_calls(reading: Reading, want: Expected) -> list[Found]:
    if want.whole is not None:
        return list(_cut(reading.calls, want))
    calls = list(want.calls)
    # A form without a place for a call that is cut leaves it out.
    if calls and calls[-1].cut and reading.omits_cut:
        made = calls[-1].closed and len(reading.calls) == len(calls)
        calls = calls if made else calls[:-1]
    return list(_calls(reading.calls, calls, want))


def _calls(
    got: list[ReadCall], want: list[Call], expected: Expected
) -> Iterator[Found]:
    made = Counter(call.name for call in got)
    asked = Counter(call.name for call in want)
    runs = Counter(call.name for call in got if does(call, expected.tools) == "runs")
    names = f"calls: got {[c.name for c in got]}, expected {[c.name for c in want]}"
    # An agent that is told of a fault asks for all that is missing.
    told = any(does(call, expected.tools) == "refused" for call in got)
    if runs - asked:
        yield "ran", names
    elif asked - made:
        yield "refused" if told and made - asked else "lost", names
    elif made - asked:
        yield "refused" if told else "text", names
    elif [call.name for call in got] != [call.name for call in want]:
        yield "text", names
    by_name = defaultdict(list)
    for read in got:
        by_name[read.name].append(read)
    for i, call in enumerate(want):
        if by_name[call.name]:
            read = by_name[call.name].pop(0)
            yield from _arguments(f"call {i}", read, call, expected)


def does(call: ReadCall, tools: Iterable[Tool] | None) -> str:
    """Return what a client does with a call: ``runs``, ``refused``, or nothing.

    Args:
        tools: Those that the client has, None if that is not known.

    """
    if call.given is None:
        return ""
    schemas = None if tools is None else {t.name: t.parameters for t in tools}
    if schemas is None or _admits(schemas.get(call.name, False), _numbers(call.given)):
        return "runs"
    return "refused"


def acts(reading: Reading, want: Expected) -> list[Act]:
    calls = reading.calls if not reading.failed else ()
    return [[does(c, want.tools), c.name, canonical(c.given)] for c in calls]


def _admits(schema: Any, value: Any) -> bool:
    """Return whether a client's own check of a value lets it pass: types, enumerations
    and required keys. What it does not know passes.
    """
    if isinstance(schema, bool):
        return schema
    kinds = schema.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    known = [TYPES[kind] for kind in kinds if kind in TYPES]
    if len(known) == len(kinds) and kinds:
        is_kind = any(isinstance(value, kind) for kind in known)
        if not is_kind or (isinstance(value, bool) and "boolean" not in kinds):
            return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    for word in ("anyOf", "oneOf"):
        if word in schema and not any(_admits(one, value) for one in schema[word]):
            return False
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(_admits(schema["items"], one) for one in value)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        return all(key in value for key in schema.get("required") or ()) and all(
            _admits(properties.get(key, {}), one) for key, one in value.items()
        )
    return True


def _arguments(
    label: str, got: ReadCall, want: Call, expected: Expected
) -> Iterator[Found]:
    """Yield how one call differs from the one that was expected in its place."""
    refused = does(got, expected.tools) == "refused"
    if want.argument_text is not None:
        if got.parsed is not None:
            # It is what the model said, if nothing behind it changes that.
            harm = "form" if want.closed else "refused" if refused else "ran"
            yield harm, f"{label} was cut and looks whole: {canonical(got.parsed)}"
        elif got.text != want.argument_text:
            yield "text", diverge(label, got.text or "", want.argument_text)
    elif got.given is None:
        yield (
            "lost",
            f"{label}: arguments are no JSON object: {(got.text or '')[-80:]!r}",
        )
    elif (text := canonical(got.given)) != (asked := canonical(want.arguments)):
        quoted = (text, got.name) in [
            (canonical(c.arguments), c.name) for c in expected.quoted
        ]
        harm = "ran" if quoted else "refused" if refused else "bytes"
        yield harm, diverge(f"arguments of {label}", text, asked)
    if got.status is not None and (got.status == "incomplete") != want.cut:
        harm = "form" if want.cut else "lost"
        yield harm, f"{label} is {got.status}, and {'cut' if want.cut else 'whole'}"


def _cut(got: list[ReadCall], want: Expected) -> Iterator[Found]:
    """Yield what is wrong with the calls of an output that was cut at any place."""
    assert want.whole
    certain, possible = want.whole
    if len(got) < certain:
        yield "lost", f"calls: got {len(got)}, of which {certain} are whole"
    for i, call in enumerate(got):
        label = f"call {i}"
        harm = "refused" if does(call, want.tools) == "refused" else "ran"
        if i >= len(want.calls) or call.name != want.calls[i].name:
            yield harm, f"{label} is {call.name}, which was not made"
            return
        meant = want.calls[i].arguments
        if i < certain or (i < possible and call.parsed is not None):
            # The model may have ended a call before its last parameters.
            count = len(meant) if i < certain else len(call.parsed)
            said = dict(list(meant.items())[:count])
            yield from _arguments(
                label, call, Call(name=call.name, arguments=said), want
            )
        elif call.parsed is not None:
            yield harm, f"{label} was cut and looks whole: {canonical(call.parsed)}"
        elif i + 1 < len(got):
            yield "lost", f"{label} stays open before another"
        elif not _begins(call.text or "", json.dumps(meant, ensure_ascii=False)):
            yield "text", f"{label} was cut, and does not begin as it was meant"


def _begins(text: str, whole: str) -> bool:
    """Return whether a JSON text is the beginning of another, spaces between apart."""
    tight, whole = (re.sub(r"(?<=[,:{])\s+", "", t) for t in (text, whole))
    rest = whole[len(tight) :]
    # Half a number is another number.
    number = re.search(r"[:,\[]-?\d+\Z", tight) and rest[:1].isdigit()
    return whole.startswith(tight) and bool(rest) and not number


def same(streamed: Reading, whole: Reading) -> list[Found]:
    """Return what differs between a streamed and a whole response to one output."""
    if streamed.failed or whole.failed:
        return []
    problems = []
    for part in ("reasoning", "content", "finish"):
        got, want = getattr(streamed, part) or "", getattr(whole, part) or ""
        if got != want:
            problems.append(diverge(f"streamed and not streamed, {part}", got, want))
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
        problems.append(f"streamed and not streamed, calls: {both}")
    return [("form", each) for each in problems]


def _told(call: ReadCall, other: Reading) -> tuple[str, str]:
    """Return a call by its text, or by its arguments if the other form has no texts."""
    texts = call.text is not None and all(c.text is not None for c in other.calls)
    return call.name, call.text or "" if texts else canonical(call.parsed)
