# SPDX-License-Identifier: Apache-2.0
"""Says whether a run came out right, and if not, what harm was done, and by whom.

A run is judged by what is on the disk, by the calls and texts that the client got, by
the calls that its next request repeats, and by the final answer.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from clients import scenarios
from clients.reading import declared, history, strings
from clients.scenarios import QUOTED_FILE, Call, Scenario
from conformance import check, tokens
from conformance.surfaces import surfaces

#: From the worst: something ran that was not asked for; a call or a file has other
#: bytes; a call or the session was lost; text was lost or came in the wrong place.
HARMS = ("ran", "bytes", "lost", "text")
Found = Iterator[tuple[str, str]]


@dataclass
class Outcome:
    files: dict[str, bytes]
    answer: str | None
    #: Why there is no answer: an exit status, an exception, a time limit.
    error: str = ""
    #: Why the scenario could not be said.
    problem: str = ""
    exchanges: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Verdict:
    """``kind``: ``right``, one of HARMS, or ``lane`` if the scenario was not said."""

    kind: str
    why: list[str]
    #: Every response was right: the client did it.
    own: bool = False


def judge(scenario: Scenario, outcome: Outcome) -> Verdict:
    if outcome.problem:
        return Verdict("lane", [outcome.problem])
    said = [e for e in outcome.exchanges if e["turn"] is not None and e["status"]]
    if not said and scenario.is_cut:
        # To do nothing would be right.
        return Verdict("lost", [f"it asked nothing: {outcome.error}"])
    served = [
        ("lost", f"{e['path']} answered {e['status']}: {e['body'][:300]}")
        for e in outcome.exchanges
        if e["status"] >= 400
    ]
    found = [*_disk(scenario, outcome)]
    # What becomes of a cut call is up to the client, but for what it does.
    if not scenario.is_cut:
        for exchange in said:
            if exchange["status"] < 400:
                served += _response(scenario, exchange)
        found += [*_answer(scenario, outcome), *_repeated(said)]
        for whose, harm, why in shown(scenario, said):
            (found if whose == "client" else served).append((harm, why))
    every = sorted([*served, *found], key=lambda each: HARMS.index(each[0]))
    if not every:
        return Verdict("right", [])
    own = not served and not scenario.is_cut
    return Verdict(every[0][0], [f"{harm}: {why}" for harm, why in every], own)


def _disk(scenario: Scenario, outcome: Outcome) -> Found:
    files = {
        name: data.decode("utf-8", "replace") for name, data in outcome.files.items()
    }
    for name in {**scenario.before, **scenario.files, **files}:
        got, want = files.get(name), scenario.files.get(name)
        if got == want:
            continue
        if want is None:
            quoted = " (a quoted call)" if name == QUOTED_FILE else ""
            yield "ran", f"{name} was never asked for{quoted}"
        elif got is None:
            yield "ran" if name in scenario.before else "lost", f"{name} is not there"
        else:
            yield "bytes", check.diverge(name, got, want)


def _answer(scenario: Scenario, outcome: Outcome) -> Found:
    if outcome.answer is None:
        yield "lost", outcome.error or "no answer"
    elif outcome.answer.strip() != scenario.answer.strip():
        got, want = outcome.answer.strip(), scenario.answer.strip()
        yield "text", check.diverge("the answer", got, want)


def _repeated(said: list[dict[str, Any]]) -> Found:
    """Yield how the calls that a request repeats differ from those that were said
    before it.

    What becomes of a call to a tool that the client does not have is its own affair.
    """
    for before, after in itertools.pairwise(said):
        known = declared(before["path"], before["request"])
        turns = history(after["path"], after["request"])
        again = len(turns) == len(history(before["path"], before["request"]))
        if again or any(call["name"] not in known for call in before["calls"]):
            continue
        where = f"behind turn {before['turn']}"
        yield from _calls(where, (turns or [[]])[-1], before["calls"])


def shown(
    scenario: Scenario, said: list[dict[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    """Yield whose doing it is, the harm, and what the prompt behind a second question
    does not show of the replies before it as the model wrote them.
    """
    for exchange in said if scenario.questions > 1 else ():
        sent = "\n".join(strings(exchange["request"]))
        for before in said[: said.index(exchange)]:
            if before["said"] + tokens.EOS in exchange["prompt"]:
                continue
            turn = scenario.turns[before["turn"]]
            calls = [scenarios.render_call(Call(**call)) for call in before["calls"]]
            parts = {
                "reasoning": turn.thought,
                "text": scenarios.content(turn),
                "call": "\n".join(calls),
            }
            lost = [part for part in parts if parts[part] not in exchange["prompt"]]
            # That calls come back as they were said is judged above.
            unsent = [p for p in lost if p != "call" and parts[p] not in sent]
            what = f"without its {' and '.join(lost)}" if lost else "otherwise"
            why = f"turn {exchange['turn']} is shown turn {before['turn']} {what}"
            yield "client" if lost and lost == unsent else "server", "text", why


def _response(scenario: Scenario, exchange: dict[str, Any]) -> Found:
    """Yield how the message of a response differs from what the model said.

    Line ends around texts and calls are the conformance suite's business.
    """
    where = f"the response of turn {exchange['turn']}"
    turn = scenario.turns[exchange["turn"]]
    if (admitted := exchange["admitted"]) is not None:
        rest = exchange["said"].removeprefix(admitted)[:20]
        behind = admitted[-60:]
        yield "lost", f"{where}: the grammar admits no {rest!r} behind {behind!r}"
    surface = next(s for s in surfaces().values() if exchange["path"].endswith(s.PATH))
    stream = exchange["request"].get("stream")
    read = surface.read_stream if stream else surface.read_full
    try:
        reading = read(exchange["body"].encode())
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        yield "lost", f"{where}: {type(error).__name__}: {error}"
        return
    got = [(call.name, call.parsed) for call in reading.calls]
    yield from _calls(where, got, exchange["calls"])
    for what, *texts in (
        ("reasoning", reading.reasoning, turn.thought),
        ("text", reading.content, scenarios.content(turn)),
    ):
        text, want = map(_joined, texts)
        if text != want:
            yield "text", check.diverge(f"{where}, {what}", text, want)


def _calls(where: str, got: list[tuple[str, Any]], said: list[dict[str, Any]]) -> Found:
    mine = [(name, check.canonical(given)) for name, given in got]
    want = [(call["name"], check.canonical(call["arguments"])) for call in said]
    if len(mine) != len(want):
        harm = "ran" if len(mine) > len(want) else "lost"
        yield harm, f"{where}, {len(mine)} calls of {len(want)}: {mine}"
    elif mine != want:
        yield "bytes", check.diverge(f"{where}, the call", str(mine), str(want))


def _joined(text: str) -> str:
    """Return a text without empty lines and the white space at its ends."""
    return re.sub(r"\n{2,}", "\n", text.strip())
