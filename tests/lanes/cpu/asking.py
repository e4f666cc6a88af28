# SPDX-License-Identifier: Apache-2.0
"""Ask a transcript on one surface, the second turn after the first one, and judge the answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from conformance import check
from conformance.case import STARTS, Case, Expected, Tool
from conformance.reading import Reading, failed, raised
from conformance.surfaces import surfaces
from cpu.server import MODEL_NAME, Server
from cpu.transcripts import Transcript, tool_schemas

SURFACES = surfaces()
#: Seconds for one request: a server that hangs must not hang the lane.
TIMEOUT = 300.0
#: ``/v1/messages`` demands a limit; more than any transcript needs.
_MAX_TOKENS = 2000
_ID = re.compile(rb'"id" ?: ?"([^"]+)"')
_LIMIT = {
    "chat": "max_completion_tokens",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
}


@dataclass(frozen=True)
class Question:
    """One request: who asks for what, streamed or not, with which limits in tokens."""

    check: str
    surface: str
    streamed: bool
    transcript: Transcript
    max_tokens: int | None = None
    thinking_token_budget: int | None = None

    def __str__(self) -> str:
        """The name of a request in a result."""
        way = f"{self.surface}{' streamed' if self.streamed else ''}"
        limit = self.max_tokens or self.thinking_token_budget
        return (
            f"{self.check}: {self.transcript.id} on {way}{f', {limit}' * bool(limit)}"
        )


@dataclass(frozen=True)
class Answer:
    """What came: the reading, and the response's id, by which the tap knows it."""

    question: Question
    reading: Reading
    id: str = ""


@dataclass(frozen=True)
class Verdict:
    """Right or wrong, and whose fault; *form*: right, and wrong in its form alone.

    *request*: refused or dropped; *prompt*: another prompt was rendered; *model*: other
    tokens than learnt; *parser*: the same tokens, a wrong message; *unknown*: wrong, and
    the tap did not see it.
    """

    kind: str
    question: Question
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Learnt:
    """Token ids of each transcript's answer, its prompt's digest, and the characters of its first n + 1 tokens."""

    prompts: dict[str, str]
    tokens: dict[str, list[int]]
    cuts: dict[str, list[int]]

    @classmethod
    def load(cls, checkpoint: Path) -> Learnt:
        """Read what the checkpoint maker wrote."""
        entries = json.loads((checkpoint / "answers.json").read_text(encoding="utf-8"))
        return cls(
            {id: _digest(entry["prompt"]) for id, entry in entries.items()},
            {id: entry["answer"] for id, entry in entries.items()},
            {id: entry["cuts"] for id, entry in entries.items()},
        )


def _digest(ids: Sequence[int]) -> str:
    """As the tap writes it."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


@dataclass
class Lane:
    """What asking needs: a server, a client, all transcripts; ``advance`` hears of each answer."""

    server: Server
    client: httpx.AsyncClient
    transcripts: dict[str, Transcript]
    learnt: Learnt | None = None
    advance: Callable[[int], None] = lambda count: None
    _tapped: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def asked(self, questions: Iterable[Question]) -> list[Answer]:
        """Ask, as many at a time as the server takes."""
        places = asyncio.Semaphore(self.server.at_once)

        async def run(question: Question) -> Answer:
            async with places:
                answer = await self.ask(question)
            self.advance(1)
            return answer

        return await asyncio.gather(*map(run, questions))

    async def ask(self, question: Question) -> Answer:
        """Send a request, after its first turn if it has one."""
        transcript, surface = question.transcript, question.surface
        history: list[dict[str, Any]] = [{"role": "user", "content": transcript.user}]
        if transcript.after is not None:
            opening = self.transcripts[transcript.after]
            first = Question("", surface, question.streamed, opening)
            said = (await self.ask(first)).reading
            turn = _turn(surface, said, transcript.results)
            history = [{"role": "user", "content": opening.user}, *turn]
        module = SURFACES[surface]
        try:
            got = await self.client.post(module.PATH, json=body(question, history))
        except httpx.HTTPError as error:
            return Answer(question, raised("connection", repr(error)))
        if got.status_code != 200:
            return Answer(question, failed(got.status_code, got.content))
        read = module.read_stream if question.streamed else module.read_full
        try:
            reading = read(got.content)
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            reading = raised("unreadable", repr(error))
        id = _ID.search(got.content)
        return Answer(question, reading, id[1].decode() if id else "")

    async def judge(self, questions: Iterable[Question]) -> list[Verdict]:
        """Ask, and compare each answer with what the model has learnt."""
        answers = await self.asked(questions)
        await self.tapped(answers)
        return [self._verdict(answer) for answer in answers]

    async def tapped(self, answers: Iterable[Answer]) -> list[dict[str, Any]]:
        """What the tap wrote of each answer; empty for one that it never saw."""
        found: list[dict[str, Any]] = []
        for _ in range(50):
            self._tapped |= {str(line["id"]): line for line in self.server.tapped()}
            # A completion's first choice has an id of its own.
            found = [
                self._tapped.get(a.id) or self._tapped.get(f"{a.id}_0", {})
                for a in answers
            ]
            if all(line for line, a in zip(found, answers, strict=True) if a.id):
                break
            await asyncio.sleep(0.1)
        return found

    def _verdict(self, answer: Answer) -> Verdict:
        question, reading = answer.question, answer.reading
        wanted = self._wanted(question)
        found = check.problems(reading, wanted)
        if _is_named(question) and question.surface == "chat":
            # As in OpenAI's API: a call to the one function that was named ends with stop.
            found = [each for each in found if "stop with a call" not in each[1]]
        why = tuple(f"{harm}: {text}" for harm, text in found)
        line = self._tapped.get(answer.id) or self._tapped.get(f"{answer.id}_0", {})
        if check.worst(found) in ("", "form"):
            return Verdict("form" if found else "right", question, why)
        assert self.learnt is not None
        id = question.transcript.id
        if not answer.id:
            kind = "request"
        elif not line:
            kind = "unknown"
        elif line["prompt"] != self.learnt.prompts[id]:
            kind = "prompt"
        elif line["tokens"] != self.learnt.tokens[id][: question.max_tokens]:
            kind = "model"
        else:
            kind = "parser"
        return Verdict(kind, question, why)

    def _wanted(self, question: Question) -> Expected:
        transcript = question.transcript
        if question.max_tokens is not None and self.learnt is not None:
            cuts = self.learnt.cuts[transcript.id]
            return transcript.cut(cuts[question.max_tokens - 1])
        if _is_named(question) and question.surface == "chat":
            return transcript.expected.model_copy(update={"finish_reason": "stop"})
        return transcript.expected


def _is_named(question: Question) -> bool:
    return question.transcript.tool_choice in question.transcript.tools


def body(question: Question, history: list[dict[str, Any]]) -> dict[str, Any]:
    """The request's body, in the surface's own form."""
    transcript, surface = question.transcript, question.surface
    schemas = tool_schemas(transcript.tools)
    named = _is_named(question)
    case = Case.model_construct(
        name=transcript.id,
        tools=tuple(Tool(name=n, parameters=schemas[n]) for n in schemas),
        tool_choice="auto" if named else transcript.tool_choice,
        request={},
        stop_string="",
    )
    thinking = {"enable_thinking": transcript.thinking}
    start = STARTS["open"].model_copy(update=thinking)
    made: dict[str, Any] = SURFACES[surface].request(
        case, start, stream=question.streamed, model=MODEL_NAME
    )
    made |= {"temperature": 0, "input" if "input" in made else "messages": history}
    if question.max_tokens or surface == "messages":
        made[_LIMIT[surface]] = question.max_tokens or _MAX_TOKENS
    if question.thinking_token_budget:
        made["thinking_token_budget"] = question.thinking_token_budget
    if named:
        name = {"name": transcript.tool_choice}
        made["tool_choice"] = {
            "chat": {"type": "function", "function": name},
            "responses": {"type": "function", **name},
            "messages": {"type": "tool", **name},
        }[surface]
    return made


def _turn(surface: str, said: Reading, results: Iterable[str]) -> list[dict[str, Any]]:
    """An answer as it came, and its tools' results, for the next request's history."""
    pairs = list(zip(said.calls, results, strict=False))
    if surface == "chat":
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for call in said.calls
        ]
        told = [
            {"role": "tool", "tool_call_id": call.id, "content": text}
            for call, text in pairs
        ]
        answer = {"role": "assistant", "content": said.content, "tool_calls": calls}
        return [answer, *told]
    if surface == "responses":
        text = [{"role": "assistant", "content": said.content}] if said.content else []
        items = [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.text,
            }
            for call in said.calls
        ]
        told = [
            {"type": "function_call_output", "call_id": call.id, "output": text}
            for call, text in pairs
        ]
        return [*text, *items, *told]
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.parsed}
        for call in said.calls
    ]
    if said.content:
        blocks.insert(0, {"type": "text", "text": said.content})
    told = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text}
        for call, text in pairs
    ]
    return [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": told},
    ]


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """A result's counts, with at most ten answers of each kind that are not right."""
    kinds = Counter(verdict.kind for verdict in verdicts)
    wrong = [one for one in verdicts if one.kind not in ("right", "form")]
    all_of = Counter(verdict.question.check for verdict in verdicts)
    wrong_of = Counter(verdict.question.check for verdict in wrong)
    shown = [
        one
        for kind in sorted(set(kinds) - {"right"})
        for one in [verdict for verdict in verdicts if verdict.kind == kind][:10]
    ]
    return {
        "requests": len(verdicts),
        "right": len(verdicts) - len(wrong),
        "by_kind": dict(kinds),
        "by_check": {
            check: {"right": count - wrong_of[check], "requests": count}
            for check, count in all_of.items()
        },
        "wrong": [
            {"kind": one.kind, "what": str(one.question), "why": list(one.why)[:5]}
            for one in shown
        ],
    }
