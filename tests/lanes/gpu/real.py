# SPDX-License-Identifier: Apache-2.0
"""Real weights: nobody knows their answers, so they are held against each other and against the tools' schemas.

Each prompt is asked on every surface, streamed and not, under greedy decoding. Two
answers of the same tokens must be the same message, and every call must be valid
against its tool's schema.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import jsonschema

from conformance.check import canonical
from conformance.reading import Reading
from cpu.asking import SURFACES, Answer, Lane, Question, Verdict
from cpu.transcripts import Transcript, read, tool_schemas

#: No answer may be longer; one that is, is cut, and its last call is not held against its schema.
MAX_TOKENS = 4096
#: The prompt whose answer is timed.
LONG = "snake"


def prompts() -> dict[str, Transcript]:
    """The prompts as transcripts without a known answer, by id."""
    return read(Path(__file__).parent / "prompts.json")


def questions() -> list[Question]:
    """Every prompt on every surface, streamed and not."""
    return [
        Question("real weights", surface, streamed, prompt, max_tokens=MAX_TOKENS)
        for prompt in prompts().values()
        for surface in SURFACES
        for streamed in (True, False)
    ]


async def judge(lane: Lane, asked: Sequence[Question]) -> list[Verdict]:
    """Ask, and judge the answers."""
    answers = await lane.asked(asked)
    lines = await lane.tapped(answers)
    return verdicts(answers, [line.get("tokens", []) for line in lines])


def verdicts(answers: Sequence[Answer], tokens: Sequence[list[int]]) -> list[Verdict]:
    """A verdict for each answer; ``tokens`` are the engine's, empty if they are not known."""
    first: dict[tuple[str, tuple[int, ...]], str] = {}
    found = []
    for answer, said in zip(answers, tokens, strict=True):
        reading, id = answer.reading, answer.question.transcript.id
        cut = reading.finish == "length"
        why = [
            broken
            for broken in reading.broken
            if not (cut and broken.startswith("valid-json"))
        ]
        why += invalid(answer.question.transcript, reading)
        if said and not cut:
            other = first.setdefault((id, tuple(said)), _message(reading))
            if other != _message(reading):
                why.append("another message was made of the same tokens")
        kind = "parser" if answer.id else "request"
        found.append(Verdict(kind if why else "right", answer.question, tuple(why)))
    return found


def _message(reading: Reading) -> str:
    calls = [[call.name, canonical(call.parsed)] for call in reading.calls]
    return json.dumps([reading.reasoning, reading.content, calls])


def invalid(transcript: Transcript, reading: Reading) -> list[str]:
    """What is wrong with calls by their tools' schemas; the last call of a cut answer is let be."""
    schemas = tool_schemas(transcript.tools)
    whole = len(reading.calls) - (reading.finish == "length")
    found = []
    for call in reading.calls[: max(whole, 0)]:
        if call.name not in schemas:
            found.append(f"no tool is called {call.name[:80]!r}")
            continue
        try:
            jsonschema.validate(call.parsed, schemas[call.name])
        except jsonschema.ValidationError as error:
            found.append(f"{call.name}: {error.message[:200]}")
    return found
