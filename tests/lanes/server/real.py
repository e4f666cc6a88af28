# SPDX-License-Identifier: Apache-2.0
"""Real weights: nobody knows their answers, so they are held against each other.

Each prompt is asked on every surface, streamed and not, under greedy decoding. Two
answers of the same tokens must be the same message.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from conformance import check
from conformance.case import STARTS, Case, Expected, Run, Tool
from conformance.reading import Reading
from server.asking import Answer, Verdict
from server.questions import Question, ways

#: No answer may be longer; one that is, is cut.
MAX_TOKENS = 4096


def questions() -> list[Question]:
    """Return every prompt on every surface, streamed and not; the first has a long
    answer.
    """
    file = Path(__file__).parent / "prompts.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    asked: list[Question] = []
    for prompt in document["prompts"]:
        tools = [Tool(name=n, parameters=document["tools"][n]) for n in prompt["tools"]]
        user = [{"role": "user", "content": prompt["user"]}]
        case = Case.model_construct(
            name=prompt["id"],
            tools=tuple(tools),
            tool_choice=prompt.get("tool_choice", "auto"),
            request={},
            stop_string="",
        )
        start = STARTS["open" if prompt.get("thinking") else "closed"]
        unknown = Run(start=start, output="", expected=Expected(finish_reason="stop"))
        asked += ways(case.name, case, unknown, MAX_TOKENS, messages=user)
    return asked


def verdicts(answers: Sequence[Answer]) -> list[Verdict]:
    """Return a verdict on each; those of equal tokens are compared with the first."""
    first: dict[tuple[str, tuple[int, ...]], Reading] = {}
    faults = []
    for answer in answers:
        reading, question = answer.reading, answer.question
        cut = reading.finish == "length"
        why = [
            broken
            for broken in reading.broken
            if not (cut and broken.startswith("valid-json"))
        ]
        if answer.tokens and not cut:
            other = first.setdefault((question.name, answer.tokens), reading)
            if check.same(reading, other):
                why.append("another message was made of the same tokens")
        kind = "right" if not why else "parser" if answer.id else "request"
        faults.append({"kind": kind, "what": str(question), "why": why})
    return faults
