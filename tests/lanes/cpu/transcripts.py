# SPDX-License-Identifier: Apache-2.0
"""What the model has learnt by heart, and what a client must see of it.

A transcript is a request and the model's answer, given in parts: reasoning, text, calls, and the frame between
them. The text that the model generates and the message that a client must receive are both derived from the parts;
no parser has a say in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "transcripts"
TEMPLATE = Path(__file__).parent / "chat_template.jinja"
_SCHEMAS = Path(__file__).parent / "tools.json"

Finish = Literal["stop", "tool_calls", "length"]
Kind = Literal["reasoning", "content", "frame", "opened", "key", "value"]


@dataclass(frozen=True)
class Call:
    """One tool call: its name, and its arguments as JSON values."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Message:
    """What a client must end up with, whatever the surface and however it was streamed."""

    reasoning: str
    content: str
    calls: tuple[Call, ...]
    finish: Finish


@dataclass(frozen=True)
class Segment:
    """A piece of the generated text. ``opened`` ends with the ``>`` that begins the call named ``name``;
    ``key`` ends with the ``>`` that opens the value of the parameter ``name``."""

    kind: Kind
    text: str
    name: str = ""


@dataclass(frozen=True)
class Transcript:
    """One request with its answer; ``group`` is the file that it stands in."""

    id: str
    group: str
    user: str
    thinking: bool
    tools: tuple[str, ...]
    tool_choice: str
    parts: tuple[dict[str, Any], ...]
    after: str | None = None
    results: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The answer as the model generates it, after the generation prompt and without the end token."""
        return "".join(segment.text for segment in self.segments)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The generated text in pieces."""
        return tuple(segment for part in self.parts for segment in _segments(part))

    @cached_property
    def message(self) -> Message:
        """What the whole answer must be read as."""
        calls = tuple(
            Call(part["call"], {p["name"]: p["value"] for p in part["parameters"]})
            for part in self.parts
            if "call" in part
        )
        return Message(
            reasoning="".join(part.get("reasoning", "") for part in self.parts),
            content="".join(part.get("text", "") for part in self.parts),
            calls=calls,
            finish="tool_calls" if calls else "stop",
        )

    def cut(self, length: int) -> Message:
        """What an answer must be read as that ``max_tokens`` ended after ``length`` characters.

        Only for answers whose calls are rendered regularly. Text that could have become a call and did not is
        content; inside a call, what could have been the beginning of a closing tag is frame.
        """
        if any("written" in part for part in self.parts):
            raise ValueError(f"{self.id} holds a call that is not rendered regularly")
        reasoning = content = held = ""
        calls: list[Call] = []
        key = ""
        left = length
        for segment in self.segments:
            text = segment.text[:left]
            whole = len(text) == len(segment.text)
            left -= len(text)
            if segment.kind == "reasoning":
                reasoning += text
            elif segment.kind == "content":
                content += held + text
                held = ""
            elif segment.kind == "frame" and not calls:
                held += "" if segment.text == "</think>" else text
            elif segment.kind == "opened":
                if whole:
                    calls.append(Call(segment.name, {}))
                    held = ""
                else:
                    held += text
            elif segment.kind == "key" and whole:
                key = segment.name
                calls[-1].arguments[key] = ""
            elif segment.kind == "value" and key:
                ended = whole and left > 0
                calls[-1].arguments[key] = text if ended else without_cut_frame(text)
                key = "" if ended else key
            if left == 0:
                break
        return Message(reasoning, content + held, tuple(calls), "length")


def without_cut_frame(value: str) -> str:
    """A cut value without the end of it that may have been the beginning of the closing tag."""
    for closer in ("\n</parameter>", "</parameter>"):
        for size in range(min(len(closer) - 1, len(value)), 0, -1):
            if value.endswith(closer[:size]):
                return value[:-size]
    return value


def written(value: Any) -> str:
    """A value as the chat template writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tool_schemas(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The JSON schemas of tools, by name."""
    schemas = json.loads(_SCHEMAS.read_text(encoding="utf-8"))
    return {name: schemas[name] for name in names}


def load(folder: Path = FOLDER) -> dict[str, Transcript]:
    """All transcripts by id.

    Raises:
        ValueError: an id stands twice, or a second turn follows nothing.
    """
    found: dict[str, Transcript] = {}
    for file in sorted(folder.glob("*.json")):
        for entry in json.loads(file.read_text(encoding="utf-8")):
            if entry["id"] in found:
                raise ValueError(f"{file.name}: {entry['id']} stands twice")
            found[entry["id"]] = Transcript(
                id=entry["id"],
                group=file.stem,
                user=entry["user"],
                thinking=entry["thinking"],
                tools=tuple(entry["tools"]),
                tool_choice=entry.get("tool_choice", "auto"),
                parts=tuple(entry["answer"]),
                after=entry.get("after"),
                results=tuple(entry.get("results", ())),
            )
    for transcript in found.values():
        if transcript.after is not None and transcript.after not in found:
            raise ValueError(
                f"{transcript.id} comes after {transcript.after}, which does not exist"
            )
    return found


def chat_messages(
    transcript: Transcript, all_of_them: dict[str, Transcript]
) -> list[dict[str, Any]]:
    """The request's messages as ``/v1/chat/completions`` takes them, a first turn answered as it should be."""
    if transcript.after is None:
        return [{"role": "user", "content": transcript.user}]
    first = all_of_them[transcript.after]
    message = first.message
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False),
            },
        }
        for number, call in enumerate(message.calls)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result}
        for number, result in enumerate(transcript.results)
    ]
    return [
        {"role": "user", "content": first.user},
        {"role": "assistant", "content": message.content, "tool_calls": calls},
        *results,
    ]


def _segments(part: dict[str, Any]) -> list[Segment]:
    if "reasoning" in part:
        closed = [] if part.get("open") else [Segment("frame", "</think>")]
        return [Segment("reasoning", part["reasoning"]), *closed]
    if "text" in part:
        return [Segment("content", part["text"])]
    if "frame" in part:
        return [Segment("frame", part["frame"])]
    if "written" in part:
        return [Segment("frame", part["written"])]
    pieces = [
        Segment("opened", f"<tool_call>\n<function={part['call']}>", part["call"]),
        Segment("frame", "\n"),
    ]
    for parameter in part["parameters"]:
        name = parameter["name"]
        pieces += [
            Segment("key", f"<parameter={name}>", name),
            Segment("frame", "\n"),
            Segment(
                "value", parameter.get("written", written(parameter["value"])), name
            ),
            Segment("frame", "\n</parameter>\n"),
        ]
    return [*pieces, Segment("frame", "</function>\n</tool_call>")]
