# SPDX-License-Identifier: Apache-2.0
"""Ask a server, and judge its answers: by the suite, and by the engine's tokens."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import httpx

from conformance import check
from conformance.reading import Reading, failed, raised
from patchset import console
from server.questions import SURFACES, Question
from server.vllm_serve import AT_ONCE, Server

#: Seconds for one request: a server that hangs must not hang the lane.
TIMEOUT = 300.0
#: Answers of each kind that a receipt shows, and reasons of each.
_SHOWN, _REASONS = 10, 5
#: Positions that are judged: the deeper a draft, the rarer its last tokens are right.
_JUDGED = 5
#: ``kind``, ``what`` was asked, and ``why`` it is not right.
Verdict = dict[str, Any]
#: What a request, or reading its response, may end with.
_BROKEN = (httpx.HTTPError, LookupError, ValueError, TypeError, AttributeError)
_ID = re.compile(rb'"id" ?: ?"([^"]+)"')


@dataclass(frozen=True)
class Answer:
    """What came: the reading, the response's id, and the engine's tokens by the tap."""

    question: Question
    reading: Reading
    id: str = ""
    tokens: tuple[int, ...] = ()


def client(url: str) -> httpx.AsyncClient:
    """Return a client that does not retry: an answer that fails is a result."""
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT, limits=httpx.Limits())


async def ask(
    server: Server,
    client: httpx.AsyncClient,
    questions: Sequence[Question],
) -> list[Answer]:
    places = asyncio.Semaphore(AT_ONCE)  # as many as the server takes

    async def run(question: Question) -> Answer:
        async with places:
            answer = await _one(client, question)
        advance(1)
        return answer

    advance = console.progress("answered", len(questions), unit="questions")
    answers = await asyncio.gather(*map(run, questions))
    tapped = await server.tapped({answer.id for answer in answers if answer.id})
    return [replace(answer, tokens=tapped.get(answer.id, ())) for answer in answers]


async def _one(client: httpx.AsyncClient, question: Question) -> Answer:
    surface = SURFACES[question.surface]
    read = surface.read_stream if question.streamed else surface.read_full
    try:
        got = await client.post(surface.PATH, json=question.body())
        if got.status_code != 200:
            return Answer(question, failed(got.status_code, got.content))
        reading = read(got.content)
    except _BROKEN as error:
        return Answer(question, raised("no answer", repr(error)))
    id = _ID.search(got.content)
    return Answer(question, reading, id[1].decode() if id else "")


def verdicts(answers: Iterable[Answer]) -> list[Verdict]:
    """Compare answers with what the model has learnt.

    Kinds: *form*, right, and wrong in its form alone; *request*, refused or dropped;
    *model*, other tokens than learnt; *parser*, the same tokens, a wrong message.
    """
    faults = []
    for answer in answers:
        question = answer.question
        wrong = check.problems(answer.reading, question.run.expected)
        if check.worst(wrong) in ("", "form"):
            kind = "form" if wrong else "right"
        elif not answer.id:
            kind = "request"
        else:
            kind = "parser" if answer.tokens == question.tokens else "model"
        why = [f"{harm}: {text}" for harm, text in wrong]
        faults.append({"kind": kind, "what": str(question), "why": why})
    return faults


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return a receipt's counts, with some answers of each kind that are not right."""
    kinds = Counter(fault["kind"] for fault in verdicts)
    shown = [
        fault | {"why": fault["why"][:_REASONS]}
        for kind in sorted(set(kinds) - {"right"})
        for fault in [each for each in verdicts if each["kind"] == kind][:_SHOWN]
    ]
    return {
        "requests": len(verdicts),
        "right": kinds["right"] + kinds["form"],
        "by_kind": dict(kinds),
        "wrong": shown,
    }


def complaints(shares: list[float]) -> list[str]:
    """Return why drafts prove nothing: some number of tokens never came in a step."""
    # One comes where the first draft is wrong, two where only the second is, and so on.
    steps = pairwise([1.0, *shares[:_JUDGED], *[0.0] * (len(shares) <= _JUDGED)])
    return [
        f"no step gave {width} tokens"
        for width, (more, fewer) in enumerate(steps, 1)
        if more == fewer
    ]
