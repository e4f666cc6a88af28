"""Says whether a run came out right, and if not, what harm was done, and by whom.

A run is judged by what is on the disk, by the calls that the client's next request
repeats, and by the final answer. What its streams say beyond that is form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from clients import scenarios
from clients.client import Client
from clients.reading import declared, history
from clients.scenarios import QUOTED_FILE, Scenario
from conformance import check
from conformance.case import Call as ExpectedCall
from conformance.case import Expected, FinishReason
from conformance.surfaces import surfaces

HARMS = ("ran", "bytes", "lost", "text", "form")
"""From the worst: something ran that was not asked for; a call came with other bytes; a
call or the session was lost; text was lost or came in the wrong place; form alone."""


@dataclass
class Outcome:
    """What a run left."""

    files: dict[str, bytes]
    answer: str | None
    error: str = ""
    """Why there is no answer: an exit status, an exception, a time limit."""
    problem: str = ""
    """The scenario could not be said."""
    exchanges: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Verdict:
    """``kind``: ``right``, one of HARMS, or ``lane`` if the scenario was not said."""

    kind: str
    why: list[str]
    own: bool = False
    """Every response was right: the client did it."""


def judge(
    client: Client, scenario: Scenario, outcome: Outcome, *, thinks: bool
) -> Verdict:
    """The verdict on a run of a (filled) scenario."""
    if outcome.problem:
        return Verdict("lane", [outcome.problem])
    said = [e for e in outcome.exchanges if e["turn"] is not None and e["status"]]
    streams = (
        [] if scenario.is_cut else [*_streams(client, scenario, said, thinks=thinks)]
    )
    refused = [
        ("lost", f"{e['path']} answered {e['status']}: {e['body'][:300]}")
        for e in outcome.exchanges
        if e["status"] >= 400
    ]
    found = [*refused, *_disk(scenario, outcome)]
    if not scenario.is_cut:
        found += [*_answer(client, scenario, outcome), *streams]
        found += _repeated(said) if client.echoes else []
    if not found:
        return Verdict("right", [])
    worst = min((harm for harm, _ in found), key=HARMS.index)
    ordered = sorted(found, key=lambda each: HARMS.index(each[0]))
    own = not (streams or refused or scenario.is_cut)
    return Verdict(worst, [f"{harm}: {why}" for harm, why in ordered], own)


def _disk(scenario: Scenario, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What is wrong with the files."""
    files = {
        name: data.decode("utf-8", "replace") for name, data in outcome.files.items()
    }
    for name in {**scenario.before, **scenario.files, **files}:
        got, want = files.get(name), scenario.files.get(name)
        if got == want:
            continue
        if want is None:
            yield "ran", f"{name} was never asked for"
        elif got is None:
            harm = "ran" if name in scenario.before else "lost"
            yield harm, f"{name} is not there"
        else:
            yield "bytes", _differs(name, got, want)
    if QUOTED_FILE in files:
        yield "ran", "a quoted call was run"


def _answer(
    client: Client, scenario: Scenario, outcome: Outcome
) -> Iterator[tuple[str, str]]:
    """What is wrong with the final answer."""
    if outcome.answer is None:
        yield "lost", outcome.error or "no answer"
    elif client.answers and outcome.answer.strip() != scenario.answer.strip():
        yield (
            "text",
            _differs("the answer", outcome.answer.strip(), scenario.answer.strip()),
        )


def _repeated(said: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """How the calls that a request repeats differ from those that were said before it.

    What becomes of a call to a tool that the client does not have is its own affair.
    """
    for before, after in itertools.pairwise(said):
        known = declared(before["path"], before["request"])
        turns = history(after["path"], after["request"])
        if len(turns) == len(history(before["path"], before["request"])):
            continue  # the client asks the same again
        if any(call["name"] not in known for call in before["calls"]):
            continue
        got = [(name, check.canonical(given)) for name, given in (turns or [[]])[-1]]
        want = [(c["name"], check.canonical(c["arguments"])) for c in before["calls"]]
        where = f"behind turn {before['turn']}"
        if len(got) > len(want):
            yield "ran", f"{where}, {len(got)} calls of {len(want)}: {got}"
        elif len(got) < len(want):
            yield "lost", f"{where}, {len(got)} calls of {len(want)}"
        elif got != want:
            yield "bytes", _differs(f"the call {where}", str(got), str(want))


def _streams(
    client: Client, scenario: Scenario, said: list[dict[str, Any]], *, thinks: bool
) -> Iterator[tuple[str, str]]:
    """What is wrong with the responses themselves.

    Line ends around texts and calls are the conformance suite's business.
    """
    for exchange in said:
        if exchange["status"] >= 400:
            continue
        turn = client.turn(scenario, exchange["turn"])
        surface = next(
            s for s in surfaces().values() if exchange["path"].endswith(s.PATH)
        )
        body = exchange["body"].encode()
        read = (
            surface.read_stream
            if exchange["request"].get("stream")
            else surface.read_full
        )
        where = f"the response of turn {exchange['turn']}"
        try:
            reading = read(body)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            yield "form", f"{where}: {type(error).__name__}: {error}"
            continue
        calls = tuple(
            ExpectedCall(name=c["name"], arguments=c["arguments"])
            for c in exchange["calls"]
        )
        thought = _joined(turn.thought) if thinks else ""
        for what, got, want in (
            ("reasoning", _joined(reading.reasoning), thought),
            ("text", _joined(reading.content), _joined(scenarios.content(turn))),
        ):
            if got != want:
                yield "text", _differs(f"{where}, {what}", got, want)
        reading.reasoning = reading.content = ""
        finish: FinishReason = "tool_calls" if calls else "stop"
        expected = Expected(calls=calls, finish_reason=finish)
        for _, wrong in check.problems(reading, expected):
            yield "form", f"{where}: {wrong}"


def _joined(text: str) -> str:
    """A text without empty lines and the white space at its ends."""
    return re.sub(r"\n{2,}", "\n", text.strip())


def _differs(what: str, got: str, want: str) -> str:
    pairs = enumerate(zip(got, want, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(got), len(want)))
    return (
        f"{what}: after {want[max(0, at - 30) : at]!r} came {got[at : at + 40]!r}, "
        f"expected {want[at : at + 40]!r}"
    )
