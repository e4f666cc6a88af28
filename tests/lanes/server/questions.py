# SPDX-License-Identifier: Apache-2.0
"""What a server is asked: cases of the suite, which the model has learnt by heart."""

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import case as cases
from conformance.case import Case, Run
from conformance.surfaces import surfaces

SURFACES = surfaces()
MODEL_NAME = "learnt-by-heart"
#: The one whose call begins before the reasoning is closed. It is asked with thinking
#: budgets that would run out at each of the call's last tokens.
INSIDE = "reasoning/call-inside/open"
#: Cases that are asked with thinking off and on, and those that are asked once.
_TWICE = ("calls/8-calls", "examples")
_ONCE = (
    "calls/2-calls",
    "calls/between-nothing",
    "calls/different-tools",
    "calls/no-arguments-one-line",
    "calls/twenty-parameters",
    "content/around",
    "content/everywhere",
    "cut",
    "escapes/code",
    "escapes/html",
    "markup/block-nested",
    "markup/block-then-call",
    "markup/format-page",
    "prose/call-then-tag",
    "prose/tool-call-pair",
    "reasoning/call-*",
    "requests/tool-result-lists",
    "think-tags/in-value",
    "tool-choice-required/between-crlf",
    "tool-choice-required/two-calls",
    "types/mixed",
    "unicode/around-the-call",
    "unicode/cjk",
    "unicode/emoji",
    "whitespace/value-spaces",
)
#: Characters of an answer.
_LONGEST = 1000
#: More tokens than an answer needs that ends by itself.
_ROOM = 200
#: At least so many tokens of the answer `INSIDE` are its call.
_CALL_TOKENS = 12
_STARTS = ("closed", "open", "thought")
#: Of a model: the tokens of its answers by the key of what was asked.
ANSWERS = "answers.json"
_LIMIT = {
    "chat": "max_completion_tokens",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
}


def taught() -> Iterator[tuple[str, Case, Run]]:
    """Yield name, case and run of all that a model is taught, or would be today."""
    for patterns, most in ((_TWICE, 2), (_ONCE, 1)):
        for case in cases.load(patterns):
            if (
                case.class_ == "implementation-defined"
                # A server stops at a string by itself, and cuts between tokens.
                or case.end in ("stop-string", "stop-token")
                or case.drop_tokens
                # What counts lines to the hundreds is not learnt by heart.
                or len(case.output) > _LONGEST
            ):
                continue
            # One for a server without a reasoning parser is the same with thinking off.
            starts = [name for name in _STARTS if name in case.starts] or ["closed"]
            for start in starts[:most]:
                yield f"{case.name}/{start}", case, case.run(start)


def prompt(case: Case, run: Run) -> dict[str, Any]:
    """Return a chat request as a server renders it: with the arguments of calls parsed.

    It has ``messages``, and where the case has them ``tools`` and the template's own
    ``chat_template_kwargs``.
    """
    # A request has the case's own messages in it.
    body = deepcopy(SURFACES["chat"].request(case, run.start, stream=False, model=""))
    for message in body["messages"]:
        for call in message.get("tool_calls", []):
            function = call["function"]
            function["arguments"] = json.loads(function["arguments"])
    rendered = ("messages", "tools", "chat_template_kwargs")
    return {name: body[name] for name in rendered if name in body}


def key(case: Case, run: Run) -> str:
    """Return what an answer is known by: its prompt, its text, and whether it is cut.

    A case that is judged otherwise needs no training.
    """
    known = [prompt(case, run), run.output, case.end == "length"]
    text = json.dumps(known, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answers(checkpoint: Path) -> dict[str, tuple[int, ...]]:
    read = json.loads((checkpoint / ANSWERS).read_text(encoding="utf-8"))
    return {name: tuple(tokens) for name, tokens in read.items()}


@dataclass(frozen=True)
class Question:
    """A case from a start, on a surface, streamed or not, with fields of its own.

    ``tokens`` are the answer's, if it is known.
    """

    name: str
    case: Case
    run: Run
    surface: str
    streamed: bool
    fields: dict[str, Any]
    tokens: tuple[int, ...] = ()

    def __str__(self) -> str:
        budget = self.fields.get("thinking_token_budget")
        parts = (self.name, self.surface, self.streamed and "streamed", budget)
        return ", ".join(str(part) for part in parts if part)

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = SURFACES[self.surface].request(
            self.case, self.run.start, stream=self.streamed, model=MODEL_NAME
        )
        return {**body, "temperature": 0, **self.fields}


def ways(
    name: str,
    case: Case,
    run: Run,
    limit: int,
    tokens: tuple[int, ...] = (),
    **fields: Any,
) -> Iterator[Question]:
    """Yield a question on every surface, streamed and not, with a limit in tokens.

    ``fields`` are the same on all; ``messages`` are asked in place of the case's own.
    """
    for surface in SURFACES:
        for streamed in (True, False):
            given = {_LIMIT[surface]: limit, **fields}
            if surface == "responses" and "messages" in given:
                given["input"] = given.pop("messages")
            yield Question(name, case, run, surface, streamed, given, tokens)


def questions(checkpoint: Path) -> list[Question]:
    """Return all that a model is asked, the longest answers first.

    What it has not been taught, because the case is newer, is not asked.
    """
    known = answers(checkpoint)
    asked: list[Question] = []
    for name, case, run in taught():
        if (tokens := known.get(key(case, run))) is None:
            continue
        # An answer that ends by itself does so in time.
        limit = len(tokens) + (0 if case.end == "length" else _ROOM)
        asked += ways(name, case, run, limit, tokens)
        # Its call has ended the reasoning: no budget may change it (vLLM #44676).
        for left in range(1, _CALL_TOKENS if name == INSIDE else 0):
            budget = {"thinking_token_budget": len(tokens) - left}
            again = ways(name, case, run, limit, tokens, **budget)
            asked += [each for each in again if each.surface == "chat"]
    return sorted(asked, key=lambda each: -len(each.tokens))
