# SPDX-License-Identifier: Apache-2.0
"""What is asked of a server: every transcript everywhere, every cut, clients that go away, and the soak."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from typing import Any

from cpu import metrics, transcripts
from cpu.asking import Asked, Lane, gather
from cpu.server import MODEL_NAME
from cpu.surfaces import SURFACES
from cpu.transcripts import Transcript, tool_schemas
from cpu.verdict import Verdict
from patchset import console

LEAVING = (1, 100)
_CUT = "cut"
#: The transcript whose call begins before the reasoning was closed.
_INSIDE = "think-call-inside"
#: The transcript that clients walk away from: long enough to be in the middle of it.
_LONG = "long-licence"
_SETTLE_SECONDS = 120


async def everywhere(lane: Lane) -> list[Verdict]:
    """Every transcript on every surface, streamed and not."""
    makers = [
        functools.partial(lane.ask, "everywhere", surface, streamed, id)
        for id in _longest_first(lane)
        for surface in SURFACES
        for streamed in (True, False)
    ]
    return await _asked("every transcript on every surface", lane, makers)


async def cuts(lane: Lane) -> list[Verdict]:
    """One transcript ended by ``max_tokens`` at every token."""
    makers = [
        functools.partial(lane.ask, "max_tokens", surface, streamed, _CUT, limit)
        for limit in range(1, len(lane.answers.cuts[_CUT]) + 1)
        for surface in SURFACES
        for streamed in (True, False)
    ]
    return await _asked("max_tokens at every token of a call", lane, makers)


async def budgets(lane: Lane) -> list[Verdict]:
    """A call that begins inside the reasoning, with thinking budgets that would run out at each of its tokens.

    The call has ended the reasoning, so none of them may change the answer (vLLM #44676).
    """
    begins = lane.transcripts[_INSIDE].text.index("<tool_call>")
    # The line feed after the prompt's <think> counts as reasoning, too.
    reasoning = sum(end <= begins for end in lane.answers.cuts[_INSIDE]) + 1
    makers = [
        functools.partial(
            lane.ask, "budget", "chat", streamed, _INSIDE, thinking_token_budget=budget
        )
        for budget in range(reasoning + 1, len(lane.answers.tokens[_INSIDE]))
        for streamed in (True, False)
    ]
    return await _asked("a thinking budget at every token of a call", lane, makers)


async def disconnects(lane: Lane) -> list[dict[str, Any]]:
    """Clients that close their connection in the middle of a stream; the server must be idle and right afterwards."""
    found = []
    for count in LEAVING:
        with console.step(
            f"{count} client{'s' if count > 1 else ''} going away in mid-stream"
        ):
            left = await asyncio.gather(
                *(_leave(lane, 3 + number % 40) for number in range(count))
            )
            start = time.monotonic()
            while (
                metrics.running(lane.server.metrics())
                and time.monotonic() - start < _SETTLE_SECONDS
            ):
                await asyncio.sleep(0.2)
            settled = time.monotonic() - start
            after = await lane.judge(
                [await lane.ask("after leaving", s, True, "one-call") for s in SURFACES]
            )
            found.append(
                {
                    "clients": count,
                    "left_in_mid_stream": sum(left),
                    "idle_after_seconds": round(settled, 1),
                    "idle": metrics.running(lane.server.metrics()) == 0,
                    "healthy": lane.server.healthy(),
                    "right_after": [verdict.kind for verdict in after],
                }
            )
    return found


async def soak(
    lane: Lane, count: int, seed: int
) -> tuple[list[Verdict], dict[str, Any]]:
    """``count`` requests, drawn at random with ``seed``; the server's memory after each half."""
    random_ = random.Random(seed)
    ids = sorted(lane.transcripts)
    kinds = [(surface, streamed) for surface in SURFACES for streamed in (True, False)]
    makers = [
        functools.partial(lane.ask, "soak", *random_.choice(kinds), random_.choice(ids))
        for _ in range(count)
    ]
    sizes = [lane.server.resident_bytes()]
    verdicts: list[Verdict] = []
    start = time.monotonic()
    for number, half in enumerate((makers[: count // 2], makers[count // 2 :])):
        verdicts += await _asked(f"soak, half {number + 1} of 2", lane, half)
        sizes.append(lane.server.resident_bytes())
    seconds = time.monotonic() - start
    grown = sum(sizes[2].values()) - sum(sizes[1].values())
    return verdicts, {
        "requests": count,
        "seconds": round(seconds, 1),
        "resident_bytes": {
            "before": sizes[0],
            "after_first_half": sizes[1],
            "after_second_half": sizes[2],
        },
        "grown_in_second_half_bytes": grown,
    }


async def control(lane: Lane) -> dict[str, list[int]]:
    """The tokens of every transcript as this server gives them, for the servers with speculative decoding."""
    makers = [
        functools.partial(lane.ask, "control", "chat", False, id)
        for id in lane.transcripts
    ]
    with console.progress("control", len(makers), unit="requests") as advance:
        asked = await gather(makers, lane.server.at_once, advance)
    await lane.judge(asked)
    return {
        a.transcript.id: tokens for a in asked if (tokens := lane.tokens(a)) is not None
    }


async def _asked(
    what: str, lane: Lane, makers: list[functools.partial[Any]]
) -> list[Verdict]:
    with (
        console.step(what),
        console.progress(what, len(makers), unit="requests") as advance,
    ):
        asked: list[Asked] = await gather(makers, lane.server.at_once, advance)
        return await lane.judge(asked)


def long_stream(transcript: Transcript | None = None) -> dict[str, Any]:
    """The body of a chat request for a long answer: the longest that the small model knows, unless one is named."""
    transcript = transcript or transcripts.load()[_LONG]
    return {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": transcript.user}],
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in tool_schemas(transcript.tools).items()
        ],
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": transcript.thinking},
    }


async def _leave(lane: Lane, chunks: int) -> bool:
    """Read some chunks of a long stream and close the connection; False when the stream was over before that."""
    body = long_stream()
    template = {"chat_template_kwargs": body.pop("chat_template_kwargs")}
    stream: Any = await lane.clients.openai.chat.completions.create(
        **body, stream=True, extra_body=template
    )
    seen = 0
    try:
        async for _ in stream:
            seen += 1
            if seen >= chunks:
                return True
        return False
    finally:
        await stream.close()


def _longest_first(lane: Lane) -> list[str]:
    return sorted(lane.transcripts, key=lambda id: -len(lane.answers.tokens[id]))
