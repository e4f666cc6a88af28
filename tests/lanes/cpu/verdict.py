# SPDX-License-Identifier: Apache-2.0
"""Right or wrong, and whose fault: what the model said is known from the tap, token by token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cpu.surfaces.common import Got, is_object
from cpu.transcripts import Message

#: *request*: the server refused or dropped it. *prompt*: the surface rendered another prompt than the transcript's.
#: *model*: the tokens differ from the control's. *parser*: same tokens, wrong message. *space*: same tokens, and
#: the message differs in white space around content or reasoning only. *unknown*: the tap did not see the request.
Kind = Literal["right", "request", "prompt", "model", "parser", "space", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """One request's outcome, with what is needed to see why."""

    kind: Kind
    check: str
    surface: str
    streamed: bool
    transcript: str
    max_tokens: int | None
    why: tuple[str, ...] = ()
    expected: dict[str, Any] | None = None
    got: dict[str, Any] | None = None
    bursts: tuple[int, ...] = ()
    thinking_token_budget: int | None = None


@dataclass(frozen=True)
class Answers:
    """Token ids of each transcript's prompt and answer; ``cuts[n]`` is how many characters n + 1 tokens are."""

    prompts: dict[str, str]
    tokens: dict[str, list[int]]
    cuts: dict[str, list[int]]

    @classmethod
    def load(cls, checkpoint: Path) -> Answers:
        """Read what the checkpoint maker wrote."""
        entries = json.loads((checkpoint / "answers.json").read_text(encoding="utf-8"))
        return cls(
            {id: prompt_digest(entry["prompt"]) for id, entry in entries.items()},
            {id: entry["answer"] for id, entry in entries.items()},
            {id: entry["cuts"] for id, entry in entries.items()},
        )


def prompt_digest(ids: Sequence[int]) -> str:
    """As the tap writes it."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def differences(expected: Message, got: Got) -> list[str]:
    """What is wrong with an answer's message, in words; rules of the protocol that it broke included."""
    found = list(dict.fromkeys(got.broken))
    message = got.message()
    for name in ("reasoning", "content"):
        if getattr(message, name) != getattr(expected, name):
            found.append(name)
    if len(message.calls) != len(expected.calls):
        found.append(f"{len(message.calls)} calls, not {len(expected.calls)}")
    for number, (wanted, call) in enumerate(
        zip(expected.calls, message.calls, strict=False)
    ):
        if call.name != wanted.name:
            found.append(f"call {number}: name")
        if not is_object(got.arguments[number]):
            found.append(f"call {number}: arguments are no JSON object")
        elif json.dumps(call.arguments) != json.dumps(wanted.arguments):
            found.append(f"call {number}: arguments")
    if message.finish != expected.finish:
        found.append(f"finish {message.finish!r}, not {expected.finish!r}")
    return found


def only_space(expected: Message, got: Got) -> bool:
    """Whether the message would be right if white space around content and reasoning did not count."""
    loose = Got(
        **{
            **vars(got),
            "content": got.content.strip(),
            "reasoning": got.reasoning.strip(),
        }
    )
    stripped = Message(
        expected.reasoning.strip(),
        expected.content.strip(),
        expected.calls,
        expected.finish,
    )
    return not differences(stripped, loose)


def shown(message: Message) -> dict[str, Any]:
    """A message as it stands in a result."""
    return asdict(message)
