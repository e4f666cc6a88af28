"""What the scripted model says, turn by turn, and what must come of it.

A scenario is written without knowing the client: ``Write`` is a call to whichever of its tools writes a file. Contents and
quotes follow the format's rules (docs/format.md), so that there is one right outcome.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Write:
    """A call to the client's own tool for writing a file. ``path`` is relative to the folder that the client works in."""

    path: str
    content: str


@dataclass(frozen=True)
class Call:
    """A call to a tool by its name."""

    name: str
    arguments: dict[str, object]


@dataclass(frozen=True)
class Load:
    """A call that asks the client for a tool which its request names and does not declare."""


@dataclass(frozen=True)
class Loaded:
    """A call to that tool."""


@dataclass(frozen=True)
class Say:
    """Text of the answer."""

    text: str


Part = Write | Call | Load | Loaded | Say


@dataclass(frozen=True)
class Turn:
    """One output of the model: reasoning, then calls and text in order."""

    parts: tuple[Part, ...]
    thought: str = "I know what to do."


@dataclass(frozen=True)
class Scenario:
    """Turns, and the files that must be there in the end. The last turn is the answer."""

    name: str
    title: str
    turns: tuple[Turn, ...]
    files: dict[str, str]
    before: dict[str, str] = field(default_factory=dict)
    """Files that are there from the start."""
    thoughts: bool = False
    """Whether it is about reasoning: then a model without any has nothing to say here."""

    @property
    def answer(self) -> str:
        """The text of the last turn."""
        return "".join(part.text for part in self.turns[-1].parts if isinstance(part, Say))


DONE = Turn((Say("The work is done."),))

QUOTED_NAME = "delete_everything"
"""No client has a tool of this name: a call to it is always a quoted one."""

QUOTED = f"""\
<tool_call>
<function={QUOTED_NAME}>
<parameter=path>
quoted.txt
</parameter>
</function>
</tool_call>"""

OWN = "@OWN CALL@"
"""Stands for a whole call of the client's own writing tool; see ``fill``."""

TAGS = f"""\
# How a tool call is written

A call opens with <tool_call>, then <function=NAME>; </function> and </tool_call> close it.
A parameter is <parameter=path>, its value, and </parameter> behind it.

{OWN}

Two of them, one behind the other:

{OWN}
{QUOTED}

<think> and </think> stand around the reasoning. `</parameter>` alone closes nothing,
and neither does </function> in a sentence.
"""

SPACES = "\n  two blanks before\n\tone tab before\nthree blanks behind   \ntab behind\t\n   \n\n\nthe last line has no newline"
CRLF = "first\r\nsecond\r\n\r\nlast\r\n"
UNICODE = (
    "äöü ß, Ελληνικά, 中文, 日本語, עברית\n"
    "👩‍👩‍👧‍👦 family, 🇪🇺 flag, e\u0301 combined\n"
    "line\u2028separator, paragraph\u2029separator, next\u0085line, nul-width\u200bspace, bom\ufeffhere\n"
)
LONG = "".join(f'    row({n}, "some text")\n' for n in range(1, 501))

ANSWER = """\
A call begins with `<tool_call>` and a reasoning ends with </think>, like this:

```
<tool_call>
<function=NAME>
<parameter=path>
quoted.txt
</parameter>
</function>
</tool_call>
```

In a sentence <function=NAME> and </parameter> are text."""


def _session() -> Scenario:
    """Twenty turns: files with tags in them, quotes in the reasoning, and every fifth call fails first."""
    turns: list[Turn] = []
    files: dict[str, str] = {"blocked": "not a folder\n"}
    for number in range(1, 21):
        thought = f"Step {number}. A call looks like this:\n\n{QUOTED}\n\nThat was only an example."
        if number % 5 == 0:
            turns.append(Turn((Write("blocked/x.txt", f"never written {number}\n"),), thought))
            continue
        name, content = f"step-{number:02}.txt", f"step {number}\n</parameter> is text\n</function> here\n"
        turns.append(Turn((Say(f"Step {number}."), Write(name, content)), thought))
        files[name] = content
    return Scenario(
        "session",
        "twenty turns, with errors and reasoning",
        (*turns, DONE),
        files,
        {"blocked": "not a folder\n"},
    )


def _one(name: str, title: str, file: str, content: str) -> Scenario:
    """One file, written by one call."""
    return Scenario(name, title, (Turn((Write(file, content),)), DONE), {file: content})


ALL = {
    s.name: s
    for s in (
        _one("plain", "a plain file", "hello.txt", "Hello, world.\n"),
        _one("tags", "tags in the value", "format.md", TAGS),
        _one("spaces", "tabs, white space, no last newline", "spaces.txt", SPACES),
        _one("crlf", "carriage returns", "crlf.txt", CRLF),
        _one("unicode", "unicode and its line ends", "unicode.txt", UNICODE),
        Scenario(
            "two",
            "two calls",
            (Turn((Write("one.txt", "one\n"), Write("two.txt", "two\n"))), DONE),
            {"one.txt": "one\n", "two.txt": "two\n"},
        ),
        Scenario(
            "thought",
            "reasoning quotes a call",
            (
                Turn(
                    (Write("real.txt", "real\n"),),
                    f"The format has <tool_call> around it:\n\n{QUOTED}\n\nNow the real one.",
                ),
                DONE,
            ),
            {"real.txt": "real\n"},
            thoughts=True,
        ),
        Scenario(
            "prose",
            "prose before and after",
            (
                Turn((Say("First I write the file."), Write("prose.txt", "prose\n"), Say("That should do."))),
                DONE,
            ),
            {"prose.txt": "prose\n"},
        ),
        Scenario(
            "quotes",
            "the answer quotes tags",
            (Turn((Write("a.txt", "a\n"),)), Turn((Say(ANSWER),))),
            {"a.txt": "a\n"},
        ),
        Scenario(
            "undeclared",
            "an undeclared name",
            (
                Turn((Call("str_replace_editor", {"command": "create", "path": "x.txt"}),)),
                Turn((Write("x.txt", "x\n"),)),
                DONE,
            ),
            {"x.txt": "x\n"},
        ),
        Scenario(
            "deferred",
            "a tool that must be loaded first",
            (Turn((Load(),)), Turn((Loaded(),)), Turn((Write("x.txt", "x\n"),)), DONE),
            {"x.txt": "x\n"},
        ),
        _one("long", "500 lines", "long.txt", LONG),
        Scenario(
            "error",
            "an error, then a second try",
            (Turn((Write("blocked/x.txt", "x\n"),)), Turn((Write("x.txt", "x\n"),)), DONE),
            {"blocked": "not a folder\n", "x.txt": "x\n"},
            {"blocked": "not a folder\n"},
        ),
        _session(),
    )
}
"""By name, in the order of the table."""


def render(turn: Turn, calls: list[Call], *, thinks: bool) -> str:
    """What the model says: the turn with its calls as the chat template writes them. Values are not escaped."""
    text, at, before = f"{turn.thought}\n</think>\n\n" if thinks else "", 0, None
    for part in turn.parts:
        if isinstance(part, Say):
            text += ("\n" if before == "call" else "") + part.text
            before = "text"
            continue
        text += {"call": "\n", "text": "\n\n"}.get(before or "", "") + render_call(calls[at])
        at, before = at + 1, "call"
    return text


def render_call(call: Call) -> str:
    """A call as Qwen3-Coder's and Qwen3.5's chat templates write it."""
    lines = ["<tool_call>", f"<function={call.name}>"]
    for key, value in call.arguments.items():
        lines += [
            f"<parameter={key}>",
            value if isinstance(value, str) else json.dumps(value),
            "</parameter>",
        ]
    return "\n".join([*lines, "</function>", "</tool_call>"])


def fill(scenario: Scenario, own: Call, deferred: tuple[Call, Call] | None) -> Scenario:
    """The scenario for a client: a call of its own tool where a file quotes one, which must stay text, and its deferred tool."""

    def filled(text: str) -> str:
        return text.replace(OWN, render_call(own))

    def part(piece: Part) -> Part:
        if deferred and isinstance(piece, (Load, Loaded)):
            return deferred[isinstance(piece, Loaded)]
        return replace(piece, content=filled(piece.content)) if isinstance(piece, Write) else piece

    turns = tuple(replace(turn, parts=tuple(part(piece) for piece in turn.parts)) for turn in scenario.turns)
    return replace(scenario, turns=turns, files={name: filled(text) for name, text in scenario.files.items()})


def content(turn: Turn) -> str:
    """The text that the client must receive, white space at its ends aside."""
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, Say))
