# SPDX-License-Identifier: Apache-2.0
"""What is asked of a server: every transcript everywhere, every cut, clients that go away, and the soak."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import httpx

from cpu import metrics
from cpu.asking import SURFACES, Lane, Learnt, Question, body
from cpu.transcripts import Transcript

LEAVING = (1, 100)
_CUT = "cut"
#: The transcript whose call begins before the reasoning was closed.
_INSIDE = "think-call-inside"
#: The transcript that clients walk away from: long enough to be in the middle of it.
LONG = "long-licence"
#: The one whose streams are timed: some 400 tokens.
TIMED = "long-manual"
_SETTLE_SECONDS = 120
_SEED = 5
_WAYS = [(surface, streamed) for surface in SURFACES for streamed in (True, False)]


def everywhere(known: dict[str, Transcript], learnt: Learnt) -> list[Question]:
    """Every transcript on every surface, streamed and not, the longest first."""
    longest_first = sorted(known, key=lambda id: -len(learnt.tokens[id]))
    return [
        Question("everywhere", surface, streamed, known[id])
        for id in longest_first
        for surface, streamed in _WAYS
    ]


def cuts(known: dict[str, Transcript], learnt: Learnt) -> list[Question]:
    """One transcript ended by ``max_tokens`` at every token."""
    return [
        Question("cut", surface, streamed, known[_CUT], max_tokens=limit)
        for limit in range(1, len(learnt.cuts[_CUT]) + 1)
        for surface, streamed in _WAYS
    ]


def budgets(known: dict[str, Transcript], learnt: Learnt) -> list[Question]:
    """A call inside the reasoning, with thinking budgets that would run out at each of its tokens.

    The call has ended the reasoning, so none of them may change the answer (vLLM #44676).
    """
    begins = known[_INSIDE].text.index("<tool_call>")
    # The line feed after the prompt's <think> counts as reasoning, too.
    reasoning = sum(end <= begins for end in learnt.cuts[_INSIDE]) + 1
    return [
        Question(
            "budget", "chat", streamed, known[_INSIDE], thinking_token_budget=budget
        )
        for budget in range(reasoning + 1, len(learnt.tokens[_INSIDE]))
        for streamed in (True, False)
    ]


def questions(known: dict[str, Transcript], learnt: Learnt) -> list[Question]:
    """All of the above."""
    return [
        question
        for check in (everywhere, cuts, budgets)
        for question in check(known, learnt)
    ]


async def disconnects(lane: Lane) -> list[str]:
    """Close connections in mid-stream; returns what is wrong with the server then."""
    wrong = []
    for count in LEAVING:
        await asyncio.gather(*(_leave(lane, 3 + n % 40) for n in range(count)))
        start = time.monotonic()
        while metrics.running(lane.server.metrics()):
            if time.monotonic() - start > _SETTLE_SECONDS:
                wrong.append(f"not idle after {count} clients left")
                break
            await asyncio.sleep(0.2)
        known = lane.transcripts["one-call"]
        after = [Question("after leaving", s, True, known) for s in SURFACES]
        refused = [
            str(verdict.question)
            for verdict in await lane.judge(after)
            if verdict.kind in ("request", "unknown")
        ]
        wrong += [f"not well after {count} clients left: {name}" for name in refused]
    return wrong


async def _leave(lane: Lane, lines: int) -> None:
    """Read some lines of a long stream and close the connection."""
    asked = long_stream(lane.transcripts[LONG])
    path = SURFACES["chat"].PATH
    async with lane.client.stream("POST", path, json=asked) as response:
        async for _ in response.aiter_lines():
            lines -= 1
            if not lines:
                return


def long_stream(
    transcript: Transcript, max_tokens: int | None = None
) -> dict[str, Any]:
    """The body of a streamed chat request for a long answer."""
    question = Question("", "chat", True, transcript, max_tokens)
    return body(question, [{"role": "user", "content": transcript.user}])


def soak(known: dict[str, Transcript], count: int) -> list[Question]:
    """Random questions, the same every time."""
    drawn = random.Random(_SEED)
    all_of_them = list(known.values())
    return [
        Question("soak", *drawn.choice(_WAYS), drawn.choice(all_of_them))
        for _ in range(count)
    ]


def client(url: str, most: int) -> httpx.AsyncClient:
    """A client that does not retry: an answer that fails is a result."""
    limits = httpx.Limits(max_connections=most)
    return httpx.AsyncClient(base_url=url, timeout=300, limits=limits)
