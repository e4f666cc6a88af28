# SPDX-License-Identifier: Apache-2.0
"""Ask one transcript on one surface, the second turn after the first one, and judge the answer."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from cpu.server import Server
from cpu.surfaces import SURFACES, Ask, Clients, Got, chat, messages, responses
from cpu.transcripts import Message, Transcript
from cpu.verdict import Answers, Verdict, differences, only_space, shown

_TURNS = {"chat": chat, "responses": responses, "messages": messages}


@dataclass
class Asked:
    """A request that was answered, or failed, and what it should have been."""

    check: str
    surface: str
    streamed: bool
    transcript: Transcript
    max_tokens: int | None
    expected: Message
    got: Got | None = None
    failure: str = ""
    thinking_token_budget: int | None = None


@dataclass
class Lane:
    """What asking needs: the server's clients, all transcripts, their tokens, and the control's."""

    server: Server
    clients: Clients
    transcripts: dict[str, Transcript]
    answers: Answers
    #: Tokens that the server without speculative decoding gave, by transcript.
    control: dict[str, list[int]] | None
    _seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def ask(
        self,
        check: str,
        surface: str,
        streamed: bool,
        id: str,
        max_tokens: int | None = None,
        thinking_token_budget: int | None = None,
    ) -> Asked:
        """Send a transcript's request (after its first turn, if it has one)."""
        transcript = self.transcripts[id]
        expected = transcript.message
        if max_tokens is not None:
            expected = transcript.cut(self.answers.cuts[id][max_tokens - 1])
        elif surface == "chat" and transcript.tool_choice in transcript.tools:
            # As in OpenAI's API: a call to the one function that was named ends with "stop".
            expected = dataclasses.replace(expected, finish="stop")
        asked = Asked(
            check,
            surface,
            streamed,
            transcript,
            max_tokens,
            expected,
            thinking_token_budget=thinking_token_budget,
        )
        try:
            asked.got = await self.send(
                surface, streamed, transcript, max_tokens, thinking_token_budget
            )
        except Exception as error:  # whatever a client raises about an answer is a finding about that answer
            cause = f" ({error.__cause__!r})" if error.__cause__ else ""
            asked.failure = f"{type(error).__name__}: {error}{cause}"[:500]
        return asked

    async def send(
        self,
        surface: str,
        streamed: bool,
        transcript: Transcript,
        max_tokens: int | None = None,
        thinking_token_budget: int | None = None,
    ) -> Got:
        """The assembled answer to a transcript's request; raises whatever the client does."""
        history = await self._history(surface, streamed, transcript)
        request = Ask(transcript, streamed, history, max_tokens, thinking_token_budget)
        return await SURFACES[surface](self.clients, request)

    async def _history(
        self, surface: str, streamed: bool, transcript: Transcript
    ) -> list[dict[str, Any]]:
        turn = _TURNS[surface]
        if transcript.after is None:
            return turn.user(transcript.user)
        first = self.transcripts[transcript.after]
        opening = turn.user(first.user)
        got = await SURFACES[surface](self.clients, Ask(first, streamed, opening))
        return [*opening, *turn.results(got, transcript.results)]

    async def judge(self, asked: Iterable[Asked]) -> list[Verdict]:
        """Verdicts for answered requests, once the tap has written all of them."""
        waiting = list(asked)
        for _ in range(50):
            self.look()
            if all(a.got is None or self._tapped(a.got) is not None for a in waiting):
                break
            await asyncio.sleep(0.1)
        return [self._verdict(a) for a in waiting]

    def look(self) -> None:
        """Read what the tap has written since the last look."""
        self._seen |= {str(line["id"]): line for line in self.server.tapped()}

    def _tapped(self, got: Got) -> dict[str, Any] | None:
        return self._seen.get(got.id) or self._seen.get(f"{got.id}_0")

    def _verdict(self, asked: Asked) -> Verdict:
        verdict = self._compared(asked)
        return dataclasses.replace(
            verdict, thinking_token_budget=asked.thinking_token_budget
        )

    def _compared(self, asked: Asked) -> Verdict:
        where = (
            asked.check,
            asked.surface,
            asked.streamed,
            asked.transcript.id,
            asked.max_tokens,
        )
        if asked.got is None:
            return Verdict("request", *where, (asked.failure,))
        why = differences(asked.expected, asked.got)
        line = self._tapped(asked.got) or {}
        bursts = tuple(line.get("bursts", ()))
        if not why:
            return Verdict("right", *where, bursts=bursts)
        details = (
            tuple(why),
            shown(asked.expected),
            vars(asked.got) | {"history": None},
            bursts,
        )
        if not line:
            return Verdict("unknown", *where, *details)
        id = asked.transcript.id
        if line["prompt"] != self.answers.prompts[id]:
            return Verdict("prompt", *where, *details)
        control = (self.control or {}).get(id) or self.answers.tokens[id]
        if line["tokens"] != control[: asked.max_tokens]:
            return Verdict("model", *where, *details)
        return Verdict(
            "space" if only_space(asked.expected, asked.got) else "parser",
            *where,
            *details,
        )

    def tokens(self, asked: Asked) -> list[int] | None:
        """The tokens that the engine gave for an answered request."""
        line = self._tapped(asked.got) if asked.got else None
        return None if line is None else list(line["tokens"])


async def gather(
    makers: Iterable[Callable[[], Awaitable[Asked]]],
    at_once: int,
    advance: Callable[[int], None],
) -> list[Asked]:
    """Run requests, ``at_once`` of them at a time."""
    places = asyncio.Semaphore(at_once)

    async def run(make: Callable[[], Awaitable[Asked]]) -> Asked:
        async with places:
            asked = await make()
            advance(1)
            return asked

    return await asyncio.gather(*(run(make) for make in makers))
