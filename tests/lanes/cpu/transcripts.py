# SPDX-License-Identifier: Apache-2.0
"""What the small model has learnt by heart, and what a client must read of it.

A transcript is a request and the model's answer in parts: reasoning, text, calls, and
the frame between them. The text that the model generates and the message that a client
must receive are both derived from the parts; no parser takes part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conformance.case import Call, Expected

FOLDER = Path(__file__).parent / "transcripts"
TEMPLATE = Path(__file__).parent / "chat_template.jinja"
_SCHEMAS = Path(__file__).parent / "tools.json"


@dataclass(frozen=True)
class Transcript:
    """One request with its answer; ``group`` is the file that has it."""

    id: str
    group: str
    user: str
    tools: tuple[str, ...]
    thinking: bool = False
    tool_choice: str = "auto"
    answer: tuple[dict[str, Any], ...] = ()
    after: str | None = None
    results: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The answer as the model generates it, without the end token."""
        return "".join(map(_text, self.answer))

    @cached_property
    def expected(self) -> Expected:
        """What the whole answer must be read as."""
        calls = tuple(
            Call(name=part["call"], arguments=_arguments(part))
            for part in self.answer
            if "call" in part
        )
        return Expected(
            reasoning="".join(part.get("reasoning", "") for part in self.answer),
            content="".join(part.get("text", "") for part in self.answer),
            calls=calls,
            finish_reason="tool_calls" if calls else "stop",
        )

    def cut(self, length: int) -> Expected:
        """What must be read if ``max_tokens`` ends the answer after ``length`` characters.

        For answers without reasoning that end with one call, whose values are strings
        (docs/format.md, "When the output is cut").
        """
        (call,) = self.expected.calls
        given: dict[str, str] = {}
        end = 0
        for key, value in call.arguments.items():
            tag = f"<parameter={key}>\n"
            begin = self.text.index(tag, end) + len(tag)
            if length < begin - 1:
                break
            end = begin + len(value)
            seen = self.text[begin : min(length, end)]
            given[key] = seen if length > end else _without_frame(seen)
        if not given:
            return Expected(content=self.text[:length], finish_reason="length")
        opened = json.dumps(given, ensure_ascii=False).removesuffix('"}')
        tags = ("</function>", "</tool_call>")
        closed = self.text[:length].rstrip().endswith(tags)
        call = Call(name=call.name, argument_text=opened, closed=closed)
        content = self.expected.content
        return Expected(content=content, calls=(call,), finish_reason="length")


def _without_frame(value: str) -> str:
    """A cut value without its end that may be the beginning of the closing tag."""
    for closer in ("\n</parameter>", "</parameter>"):
        for size in range(len(closer) - 1, 0, -1):
            if value.endswith(closer[:size]):
                return value[:-size]
    return value


def _arguments(part: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in part["parameters"]}


def _text(part: dict[str, Any]) -> str:
    """A part as the model generates it."""
    if "reasoning" in part:
        return part["reasoning"] + ("" if part.get("open") else "</think>")
    for kind in ("text", "frame", "written"):
        if kind in part:
            return str(part[kind])
    values = "".join(
        f"<parameter={one['name']}>\n{one.get('written', _written(one['value']))}"
        "\n</parameter>\n"
        for one in part["parameters"]
    )
    return f"<tool_call>\n<function={part['call']}>\n{values}</function>\n</tool_call>"


def _written(value: Any) -> str:
    """A value as the chat template writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tool_schemas(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The JSON schemas of tools, by name."""
    schemas = json.loads(_SCHEMAS.read_text(encoding="utf-8"))
    return {name: schemas[name] for name in names}


def read(file: Path) -> dict[str, Transcript]:
    """The transcripts of one file, by id."""
    entries = json.loads(file.read_text(encoding="utf-8"))
    lists = ("tools", "answer", "results")
    found = {}
    for entry in entries:
        entry |= {name: tuple(entry[name]) for name in lists if name in entry}
        found[entry["id"]] = Transcript(**{"group": file.stem, **entry})
    return found


def load() -> dict[str, Transcript]:
    """All transcripts, by id."""
    found: dict[str, Transcript] = {}
    for file in sorted(FOLDER.glob("*.json")):
        found |= read(file)
    return found


def prompt_messages(
    transcript: Transcript, known: dict[str, Transcript]
) -> list[dict[str, Any]]:
    """The request's messages as the chat template takes them, a first turn included."""
    if transcript.after is None:
        return [{"role": "user", "content": transcript.user}]
    first = known[transcript.after]
    calls = [
        {"function": {"name": call.name, "arguments": call.arguments}}
        for call in first.expected.calls
    ]
    said = {"content": first.expected.content, "tool_calls": calls}
    return [
        {"role": "user", "content": first.user},
        {"role": "assistant", **said},
        *({"role": "tool", "content": result} for result in transcript.results),
    ]
