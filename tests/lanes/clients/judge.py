"""Says whether a run came out right, and if not, whose fault it is: the server's stream or the client."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from clients import scenarios
from clients.client import Client
from clients.reading import Said, declared, history
from clients.scenarios import QUOTED_NAME, Scenario
from conformance import check
from conformance.case import Call as ExpectedCall
from conformance.case import Expected
from conformance.surfaces import surfaces


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
    """``kind``: right; refused (a 4xx or 5xx); server (a stream was wrong); client (all streams were right); lane."""

    kind: str
    why: list[str]
    quoted: bool = False
    """A quoted call reached the client as a call, or was run."""


def judge(client: Client, scenario: Scenario, outcome: Outcome, *, thinks: bool) -> Verdict:
    """The verdict on a run of a (filled) scenario."""
    if outcome.problem:
        return Verdict("lane", [outcome.problem])
    refused, wrong, quoted = [], [], "quoted.txt" in outcome.files
    for exchange in outcome.exchanges:
        if exchange["status"] >= 400:
            refused.append(f"{exchange['path']} answered {exchange['status']}: {exchange['body'][:300]}")
        elif exchange["turn"] is not None and exchange["status"]:
            bad, names = stream(client, scenario, exchange, thinks=thinks)
            wrong += [f"turn {exchange['turn']}: {b}" for b in bad]
            quoted = quoted or QUOTED_NAME in names
    outside = of_client(client, scenario, outcome)
    if refused:
        return Verdict("refused", [*refused, *outside], quoted)
    if wrong:
        return Verdict("server", [*wrong, *outside], quoted)
    return Verdict("client" if outside else "right", outside, quoted)


def stream(
    client: Client, scenario: Scenario, exchange: dict[str, Any], *, thinks: bool
) -> tuple[list[str], list[str]]:
    """(what is wrong with a response, the names of its calls).

    Line ends around texts and calls are the conformance suite's business: here a few more or less are no fault.
    """
    turn = client.turn(scenario, exchange["turn"])
    surface = next(s for s in surfaces().values() if exchange["path"].endswith(s.PATH))
    body = exchange["body"].encode()
    try:
        reading = surface.read_stream(body) if exchange["request"].get("stream") else surface.read_full(body)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        return [f"unreadable: {type(error).__name__}: {error}"], []
    reading.reasoning, reading.content = reading.reasoning.strip(), _joined(reading.content)
    calls = tuple(ExpectedCall(name=c["name"], arguments=c["arguments"]) for c in exchange["calls"])
    want = Expected(
        reasoning=turn.thought.strip() if thinks else "",
        content=_joined(scenarios.content(turn)),
        calls=calls,
        finish_reason="tool_calls" if calls else "stop",
    )
    return check.compare(reading, want) + reading.broken, [c.name for c in reading.calls]


def _joined(text: str) -> str:
    """A text without empty lines and the white space at its ends."""
    return re.sub(r"\n{2,}", "\n", text.strip())


def of_client(client: Client, scenario: Scenario, outcome: Outcome) -> list[str]:
    """What is wrong with the files, the answer, and what the client sent back."""
    out = []
    for name, text in scenario.files.items():
        if name not in outcome.files:
            out.append(f"{name} was not written")
        elif outcome.files[name] != text.encode():
            out.append(_differs(name, outcome.files[name].decode("utf-8", "replace"), text))
    out += [f"{name} was written and never asked for" for name in outcome.files if name not in scenario.files]
    if outcome.answer is None:
        out.append(outcome.error or "no answer")
    elif client.answers and outcome.answer.strip() != scenario.answer.strip():
        out.append(_differs("the final answer", outcome.answer.strip(), scenario.answer.strip()))
    return out + (echoes(outcome.exchanges) if client.echoes else [])


def echoes(exchanges: list[dict[str, Any]]) -> list[str]:
    """What differs between the calls that were said and those that the next request repeats.

    What a client makes of a call to a tool that it does not have is its own affair.
    """
    out = []
    said: dict[int, list[tuple[str, str]]] = {
        e["turn"]: [(c["name"], check.canonical(c["arguments"])) for c in e["calls"]]
        for e in exchanges
        if e["turn"] is not None and all(c["name"] in declared(e["path"], e["request"]) for c in e["calls"])
    }
    for exchange in exchanges:
        turn = exchange["turn"]
        if not turn or turn - 1 not in said:
            continue
        turns = history(exchange["path"], exchange["request"])
        last = turns[-1] if turns else Said()
        got = [(name, check.canonical(arguments)) for name, arguments in last.calls]
        if got != said[turn - 1]:
            out.append(_differs(f"the call repeated before turn {turn}", str(got), str(said[turn - 1])))
    return out


def _differs(what: str, got: str, want: str) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want))
    )
    return f"{what}: after {want[max(0, at - 30) : at]!r} came {got[at : at + 40]!r}, expected {want[at : at + 40]!r}"
