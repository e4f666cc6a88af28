"""Random requests and outputs, seeded. A request is written by the chat template, so its right reading is known.

What the format leaves open is left out here by construction (see ``unsafe``): everything that remains must come back.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

WORDS = [
    "the",
    "file",
    "reads",
    "lorem",
    "ipsum",
    "value",
    "null",
    "true",
    "007",
    "-1",
    "3.5",
    "naïve",
    "漢字",
    "🙂",
    "🧑\u200d🚀",
    "é",
    "שלום",
    "x=1",
    "a<b",
    "c>d",
    "</",
    "<",
    ">",
    "</p",
    "<t",
    '="q"',
    "\\n",
    "{}",
    "[]",
    ";",
    "//",
    "#",
    "`code`",
    "```",
    "|",
    "\u2028",
]
TAGS = (
    "<tool_call>",
    "</tool_call>",
    "<function=read>",
    "<function=write>",
    "<function=search>",
    "</function>",
    "<parameter=path>",
    "<parameter=x>",
    "<parameter=content>",
    "</parameter>",
    "<think>",
    "</think>",
    "<tool_response>",
)
PARTS = (
    "<tool_",
    "</tool_call",
    "<func",
    "<function=",
    "<function=read",
    "</func",
    "<param",
    "<parameter=",
    "<parameter=pa",
    "</para",
    "</parameter",
    "</thin",
    "</",
    "<",
)
TOOLS = [
    {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "mode": {"type": "integer"},
            },
        },
    },
    {
        "name": "read",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
        },
    },
    {
        "name": "edit",
        "parameters": {
            "type": "object",
            "properties": {
                "old": {"type": "string"},
                "new": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "opts": {"type": "object"},
                "lines": {"type": "array"},
                "all": {"type": "boolean"},
            },
        },
    },
    {"name": "ping", "parameters": {"type": "object", "properties": {}}},
]

_CLOSER_THEN = re.compile(
    r"(</parameter>|</function>|</tool_call>)\s*(<tool_call>|<function=|<parameter=|</function>|</tool_call>)"
)
_LINE_OPENS = re.compile(r"^(<tool_call>|<function=)", re.M)
_LINE_PARAMETER = re.compile(r"^<parameter=([^<>\n]*)>", re.M)
_BLOCK = "\x00"


@dataclass
class Param:
    """A parameter of a call: the text that the template writes, and the value a client must read."""

    key: str
    text: str
    value: Any


@dataclass
class Message:
    """An output in pieces: reasoning (None: no start with one), then texts and calls in order."""

    start: str
    reasoning: str
    pieces: list[tuple[str, Any]]

    def output(self) -> str:
        """The model's text."""
        out = ""
        for kind, piece in self.pieces:
            if kind == "call":
                name, params = piece
                body = "".join(
                    f"<parameter={p.key}>\n{p.text}\n</parameter>\n" for p in params
                )
                out += (
                    f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"
                )
            else:
                out += piece
        return f"{self.reasoning}</think>{out}" if self.start == "open" else out

    def expected(self) -> dict[str, Any]:
        """The normalised message, by the rules for white space around calls."""
        content, held, calls, after = "", "", [], False
        for kind, piece in self.pieces:
            if kind == "call":
                name, params = piece
                calls.append(
                    {"name": name, "arguments": {p.key: p.value for p in params}}
                )
                tail = content[len(content.rstrip()) :]
                content, held, after = (
                    content.rstrip(),
                    held + tail if content.strip() else "",
                    True,
                )
            else:
                text = piece.lstrip() if after else piece
                if text:
                    content += (held if content else "") + text
                    held, after = "", False
        return {
            "reasoning": self.reasoning if self.start == "open" else "",
            "content": content,
            "calls": calls,
            "finish_reason": "tool_calls" if calls else "stop",
        }

    def document(self, description: str) -> dict[str, Any]:
        """As a case file."""
        return {
            "description": description,
            "class": "must",
            "source": "random search",
            "tools": TOOLS,
            "starts": [self.start],
            "output": self.output(),
            "expected": self.expected(),
        }


def unsafe(text: str, given: set[str], declared: set[str]) -> bool:
    """Whether a value (documented calls replaced by a mark) holds what the format reads otherwise or leaves open.

    That is: a closing tag followed by the next tag of a frame or by a documented call; a line that opens a block which
    is never closed; a line that looks like a declared parameter not given yet.
    """
    marked = text.replace(_BLOCK, "<tool_call>")
    if _CLOSER_THEN.search(marked):
        return True
    # Two documented calls with only white space between are left to a hand-written case.
    if re.search(rf"{_BLOCK}\s*{_BLOCK}", text) or _LINE_OPENS.search(text):
        return True
    return any(
        m[1].strip(" \"'") in declared - given for m in _LINE_PARAMETER.finditer(text)
    )


class Generator:
    """Draws messages and malformed outputs from a seed."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)

    def line(self, markup: float) -> str:
        """A line of text that does not begin with a tag more often than by chance."""
        rng = self.rng
        bits = [
            rng.choice(TAGS)
            if rng.random() < markup
            else rng.choice(PARTS)
            if rng.random() < markup / 2
            else rng.choice(WORDS)
            for _ in range(rng.randint(1, 8))
        ]
        return rng.choice((" ", " ", "")).join(bits)

    def value(self, given: set[str], declared: set[str]) -> str:
        """A string value, markup in it in most of them."""
        rng = self.rng
        # Drawn once: a rejected value must not be replaced by one with less markup in it.
        markup = rng.choice((0.0, 0.25, 0.5, 0.6))
        for _ in range(50):
            lines = [
                _BLOCK if markup and rng.random() < 0.15 else self.line(markup)
                for _ in range(rng.choice((0, 1, 1, 2, 3, 6)))
            ]
            text = (
                rng.choice(("", "", "", "\n", "  ", "\t"))
                + "\n".join(lines)
                + rng.choice(("", "", "", "\n", "\n\n", " ", "\r", "<", "</"))
            )
            if rng.random() < 0.1:
                text = text.replace("\n", "\r\n")
            if unsafe(text, given, declared) or not _blocks_on_lines(text):
                continue
            return re.sub(_BLOCK, lambda _: self.block(), text)
        return "x"

    def block(self) -> str:
        """A documented call, balanced."""
        rng = self.rng
        name = rng.choice(("read", "write", "search"))
        body = "".join(
            f"<parameter={k}>\n{rng.choice(WORDS)} {rng.choice(WORDS)}\n</parameter>\n"
            for k in rng.sample(("path", "q", "content"), rng.randint(0, 2))
        )
        inner = f"<function={name}>\n{body}</function>"
        return f"<tool_call>\n{inner}\n</tool_call>" if rng.random() < 0.8 else inner

    def params(self, tool: dict[str, Any]) -> list[Param]:
        """Values for some of a tool's parameters, in any order."""
        rng = self.rng
        properties = tool["parameters"]["properties"]
        keys = rng.sample(sorted(properties), rng.randint(0, len(properties)))
        given: set[str] = set()
        out = []
        for key in keys:
            given = given | {key}
            text, value = self.typed(properties[key], given, set(properties))
            out.append(Param(key, text, value))
        return out

    def typed(
        self, schema: dict[str, Any], given: set[str], declared: set[str]
    ) -> tuple[str, Any]:
        """(text, value) for a schema."""
        rng = self.rng
        kinds = {s.get("type") for s in schema.get("anyOf", [schema])}
        if "null" in kinds and rng.random() < 0.2:
            return "null", None
        if "string" in kinds:
            text = self.value(given, declared)
            return (text, text) if text.strip() != "null" else ("x", "x")
        if "integer" in kinds:
            number = rng.choice((0, 1, -5, 10**20, rng.randint(0, 10**6)))
            return str(number), number
        if "boolean" in kinds:
            return rng.choice(
                (("true", True), ("false", False), ("True", True), ("False", False))
            )
        words = [rng.choice((*WORDS, *TAGS)) for _ in range(rng.randint(0, 3))]
        value: Any = (
            {w: rng.choice((1, None, True, "s", [w])) for w in words}
            if "object" in kinds
            else [*words, 1, None]
        )
        text = json.dumps(
            value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 2))
        )
        return text, json.loads(text)

    def prose(self) -> str:
        """Text outside calls: words, and tags that can begin no call."""
        rng = self.rng
        for _ in range(50):
            text = "\n".join(
                " ".join(
                    rng.choice(WORDS) if rng.random() < 0.85 else rng.choice(TAGS)
                    for _ in range(rng.randint(1, 6))
                )
                for _ in range(rng.randint(1, 3))
            )
            # <function=read> begins a call where a release accepts it bare; think tags outside reasoning are frame. An open
            # block of an undeclared name quotes the calls behind it.
            if (
                not re.search(
                    r"<function=(read|write)>|<tool_call>\s*<function=|</?think>|</(parameter|function|tool_call)>",
                    text,
                )
                and text.strip() == text
            ):
                return text
        return "Some text."

    def message(self) -> Message:
        """Reasoning or none, then up to four calls with text or white space in the gaps."""
        rng = self.rng
        pieces: list[tuple[str, Any]] = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
            gap = rng.choice(("", "\n", "\n\n", " "))
            pieces.append(("text", (self.prose() + gap) if rng.random() < 0.4 else gap))
            tool = rng.choice(TOOLS)
            pieces.append(("call", (tool["name"], self.params(tool))))
        if rng.random() < 0.3 or not pieces:
            pieces.append(("text", rng.choice(("", "\n", "\n\n")) + self.prose()))
        # Two texts in a row, or a prefix that a text before a call would join to a tag, cannot be: gaps and calls alternate.
        start = rng.choice(("plain", "closed", "open"))
        reasoning = (
            (self.prose() + rng.choice(("\n", "", "\n\n"))) if start == "open" else ""
        )
        return Message(start, reasoning, pieces)

    def malformed(self) -> list[str]:
        """Fragments of an output without any rule: tags, parts of tags, and numbered words of which none may be lost."""
        rng, out, word = self.rng, [], 0
        for _ in range(rng.randint(1, 30)):
            kind = rng.random()
            if kind < 0.45:
                out.append(rng.choice(TAGS[:-1]))
            elif kind < 0.55:
                out.append(rng.choice(PARTS))
            elif kind < 0.8:
                out.append(f"w{word}w")
                word += 1
            else:
                out.append(
                    rng.choice(
                        (
                            "\n",
                            "\n\n",
                            " ",
                            "\r\n",
                            "🙂",
                            "漢",
                            "<|im_start|>"[:2],
                            '"',
                            "\\",
                        )
                    )
                )
        return out


def kept(output: str, seen: str) -> list[str]:
    """Which of a malformed output's numbered words a client did not see exactly once.

    A tag of the frame that the output's end cut short inside a call is dropped, the beginning of a name in it included: a
    word there may be missing.
    """
    cut = re.search(r"<(?:function|parameter)=[^<>\n]*\Z", output)
    exempt = set(re.findall(r"w\d+w", cut[0])) if cut else set()
    counts = {w: seen.count(w) for w in re.findall(r"w\d+w", output)}
    return [
        f"text: {w} appears {n} times"
        for w, n in counts.items()
        if n != 1 and not (n == 0 and w in exempt)
    ]


def _blocks_on_lines(text: str) -> bool:
    """Whether every documented call stands on lines of its own (a block opens where a line starts with its tag)."""
    return all(
        line == _BLOCK for line in text.replace("\r", "").split("\n") if _BLOCK in line
    )
