# SPDX-License-Identifier: Apache-2.0
"""What the scripted model says, turn by turn, and what must come of it.

A scenario is written without knowing the client: ``Write``, ``Edit`` and ``Shell`` are
calls to whichever of its tools does that. A quoted call is one of the client's own too,
and leaves the file ``quoted.txt`` if anything runs it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Write:
    """A call that writes a file; ``path`` is relative to the client's folder."""

    path: str
    content: str


@dataclass(frozen=True)
class Edit:
    """A call that changes a word in a fragment of a document: ``old`` becomes
    ``new``.
    """

    path: str
    #: What the file holds.
    document: str
    first: str
    #: The fragment begins and ends with these.
    last: str
    #: What is changed in it, and into what.
    word: tuple[str, str]

    @property
    def old(self) -> str:
        begin = self.document.index(self.first)
        return self.document[
            begin : self.document.index(self.last, begin) + len(self.last)
        ]

    @property
    def new(self) -> str:
        return self.old.replace(*self.word)

    @property
    def result(self) -> str:
        return self.document.replace(self.old, self.new)


@dataclass(frozen=True)
class Shell:
    """A call that runs a shell command in the client's folder."""

    command: str


@dataclass(frozen=True)
class Clear:
    """A call that removes a folder; without ``path``, which is optional, all of
    them.
    """

    path: str


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Load:
    """A call that loads a tool which the client's request names and does not
    declare.
    """


@dataclass(frozen=True)
class Loaded:
    """A call to that tool."""


@dataclass(frozen=True)
class Say:
    text: str


Part = Write | Edit | Shell | Clear | Call | Load | Loaded | Say


@dataclass(frozen=True)
class Turn:
    """One output of the model: reasoning, then calls and text in order."""

    parts: tuple[Part, ...]
    thought: str = "I know what to do."
    #: How it ends: ``eos``, ``length``, or ``stop``, at a stop string.
    end: str = "eos"
    #: The output ends behind this text. Of a stop string, the text is not sent.
    cut: str = ""


@dataclass(frozen=True)
class Scenario:
    """Turns, and the files that must be there in the end. The last turn is the answer.

    A turn that is cut is said once. Whether the client then asks again is its affair.
    """

    name: str
    title: str
    turns: tuple[Turn, ...]
    files: dict[str, str]
    #: Files that are there from the start.
    before: dict[str, str] = field(default_factory=dict)
    #: Whether the client asks for streams.
    stream: bool = True
    #: How many the client is asked in its session, one behind the other's answer.
    questions: int = 1

    @property
    def answer(self) -> str:
        return content(self.turns[-1])

    @property
    def is_cut(self) -> bool:
        return any(turn.cut for turn in self.turns)


DONE = Turn((Say("The work is done."),))

QUOTED_FILE = "quoted.txt"
QUOTED_COMMAND = f"echo quoted > {QUOTED_FILE}"
ONCE_CALL = Shell("printf x >> once.txt")

#: What stands for a quoted call at the end of a line, whatever is before it on the
#: line.
QUOTES: dict[str, Part] = {
    (WRITE := "@WRITE@"): Write(QUOTED_FILE, "quoted"),
    (SHELL := "@SHELL@"): Shell(QUOTED_COMMAND),
    (ONCE := "@ONCE@"): ONCE_CALL,
}

#: Stands for ``SHELL`` on one line.
LINE = "@LINE@"
#: Stands for the tags that open it, on one line.
OPENER = "@OPENER@"

TAGS = f"""\
# How a tool call is written

A call opens with <tool_call>, then <function=NAME>; </function> \
and </tool_call> close it.
A parameter is <parameter=path>, its value, and </parameter> behind it.

{WRITE}

Two of them, one behind the other:

{WRITE}
{SHELL}

<think> and </think> stand around the reasoning. `</parameter>` alone closes nothing,
and neither does </function> in a sentence.
"""

YAML = f"""\
examples:
  - name: write a file
    expected: |
      {WRITE}
  - name: write, then run
    expected: |
      {WRITE}
      {SHELL}
done: true
"""

MARKDOWN = f"""\
1. Write a file:

   {WRITE}

2. Run a command, indented as code:

    {SHELL}

- In a list
\t{SHELL}

> {WRITE}

That is all.
"""

DIFF = f"""\
--- a/calls.md
+++ b/calls.md
@@ -1,14 +1,15 @@
 # Calls
+
 {WRITE}
-{SHELL}
+{WRITE}
 The end.
"""

DEDENT = f"""\
from textwrap import dedent

CALL = dedent(\"\"\"\\
    {WRITE}
    {SHELL}
    \"\"\")
LINES = [
    "{LINE}",
    "{LINE}",
]
"""

MANUAL = f"""\
# Manual

Run it like this:

{SHELL}

Then say that it is done.
"""

SPACES = (
    "\n  two blanks before\n\tone tab before\nthree blanks behind   \ntab behind\t\n"
    "   \n\n\nthe last line has no newline"
)
CRLF = "first\r\nsecond\r\n\r\nlast\r\n"
UNICODE = (
    "äöü ß, Ελληνικά, 中文, 日本語, עברית\n"
    "👩‍👩‍👧‍👦 family, 🇪🇺 flag, e\u0301 combined\n"
    "line\u2028separator, paragraph\u2029separator, next\u0085line, "
    "nul-width\u200bspace, bom\ufeffhere\n"
)
LONG = "".join(f'    row({n}, "some text")\n' for n in range(1, 501))
LOG = "Thought: look first\nAction: ls\nObservation: two files\nDone.\n"

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

FENCED = f"""\
I would run this:

```xml
{SHELL}
```

I have not run it. Shall I?"""

#: Nothing can be written below it.
BLOCKED = {"blocked": "not a folder\n"}
DATA = {"data/keep.txt": "keep\n", "data/tmp/cache-of-yesterday/a.txt": "a\n"}
REMOVE = Shell("rm -rf data/tmp/cache-of-yesterday")
CLEAR = Clear("data/tmp/cache-of-yesterday")


def _session() -> Scenario:
    """Return twenty turns: tags in files, quotes in the reasoning, every fifth call
    fails.
    """
    turns, files = list[Turn](), {}
    for n in range(1, 21):
        parts: tuple[Part, ...] = (Write("blocked/x.txt", f"never written {n}\n"),)
        if n % 5:
            name = f"step-{n:02}.txt"
            files[name] = f"step {n}\n</parameter> is text\n</function> here\n"
            parts = (Say(f"Step {n}."), Write(name, files[name]))
        thought = (
            f"Step {n}. A call looks like this:\n\n{SHELL}\n\nThat was an example."
        )
        turns.append(Turn(parts, thought))
    title = "twenty turns, with errors and reasoning"
    return Scenario("session", title, (*turns, DONE), BLOCKED | files, BLOCKED)


def _one(
    name: str, title: str, file: str, content: str, thought: str = Turn.thought
) -> Scenario:
    turns = (Turn((Write(file, content),), thought), DONE)
    return Scenario(name, title, turns, {file: content})


def _edit(
    name: str, title: str, first: str, last: str, word: tuple[str, str]
) -> Scenario:
    """Return an edit of a document that the turn before has written."""
    parts = (
        Write("manual.md", MANUAL),
        Shell("cat manual.md"),  # some clients edit no file that was not read
        Edit("manual.md", MANUAL, first, last, word),
    )
    turns = (*(Turn((part,)) for part in parts), DONE)
    return Scenario(name, title, turns, {"manual.md": MANUAL})


def _again(name: str, title: str, first: Turn, answer: Turn, text: str) -> Scenario:
    """Return a second question: both replies to the first come back as history."""
    write = first.parts[-1]
    assert isinstance(write, Write)
    then = Turn((Write("then.txt", text),), "The second question is another.")
    files = {write.path: write.content, "then.txt": text}
    return Scenario(name, title, (first, answer, then, DONE), files, questions=2)


def _cut(
    name: str, title: str, part: Part, end: str, cut: str, *, stream: bool = True
) -> Scenario:
    """Return an output that ends within a call: nothing of the call must be done."""
    before = {} if isinstance(part, Write) else DATA
    turns = (Turn((part,), end=end, cut=cut), DONE)
    return Scenario(name, title, turns, before, before, stream)


_ALL = (
    _one("plain", "a plain file", "hello.txt", "Hello, world.\n"),
    _one("tags", "tags and calls in the value", "format.md", TAGS),
    _one("yaml", "calls indented in YAML", "calls.yaml", YAML),
    _one("markdown", "calls in lists, quotes and tabs", "calls.md", MARKDOWN),
    _one("diff", "calls as lines of a diff", "calls.diff", DIFF),
    _one("dedent", "calls in Python strings", "calls.py", DEDENT),
    _edit(
        "edit-head",
        "an edit from prose into a call",
        "Run it",
        QUOTED_COMMAND,
        ("like", "a la"),
    ),
    _edit(
        "edit-middle",
        "an edit within a call",
        "<parameter=",
        "</parameter>",
        ("echo", "printf"),
    ),
    _edit(
        "edit-tail",
        "an edit from a call into prose",
        QUOTED_COMMAND,
        "done.",
        ("say", "write"),
    ),
    _one("spaces", "tabs, white space, no last newline", "spaces.txt", SPACES),
    _one("crlf", "carriage returns", "crlf.txt", CRLF),
    _one("unicode", "unicode and its line ends", "unicode.txt", UNICODE),
    _one("long", "500 lines", "long.txt", LONG),
    Scenario(
        "two",
        "two calls",
        (Turn((Write("one.txt", "one\n"), Write("two.txt", "two\n"))), DONE),
        {"one.txt": "one\n", "two.txt": "two\n"},
    ),
    Scenario(
        "prose",
        "prose before and after",
        (
            Turn(
                (Say("First I write."), Write("a.txt", "a\n"), Say("That should do."))
            ),
            DONE,
        ),
        {"a.txt": "a\n"},
    ),
    _one(
        "thought",
        "reasoning quotes a call",
        "a.txt",
        "a\n",
        f"The format has <tool_call> around it:\n\n{SHELL}\n\nNow the real one.",
    ),
    Scenario(
        "rehearsed",
        "reasoning rehearses the call",
        (Turn((ONCE_CALL,), f"I will say:\n\n{ONCE}\n\nYes, that is it."), DONE),
        {"once.txt": "x"},
    ),
    _one(
        "mention",
        "reasoning names an opening tag",
        "a.txt",
        "a\n",
        f"I must not use `{OPENER}` here, and writing is enough.",
    ),
    Scenario(
        "quotes",
        "the answer quotes tags",
        (Turn((Write("a.txt", "a\n"),)), Turn((Say(ANSWER),))),
        {"a.txt": "a\n"},
    ),
    Scenario("fenced", "the answer has a fenced example", (Turn((Say(FENCED),)),), {}),
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
    Scenario(
        "error",
        "an error, then a second try",
        (Turn((Write("blocked/x.txt", "x\n"),)), Turn((Write("x.txt", "x\n"),)), DONE),
        BLOCKED | {"x.txt": "x\n"},
        BLOCKED,
    ),
    _session(),
    _again(
        "again",
        "a second question in the session",
        Turn((Say("I write it."), Write("first.txt", "first\n")), "I think of first."),
        Turn((Say("The first is written."),), "That was the first."),
        "then\n",
    ),
    _again(
        "again-quotes",
        "a second question, behind replies that quote calls",
        Turn(
            (Say("Behind `</think>`, I write it."), Write("format.md", TAGS)),
            f"The format has <tool_call> around it:\n\n{SHELL}\n\nNow the real one.",
        ),
        Turn((Say(ANSWER),), "I say how it is written."),
        YAML,
    ),
    _cut("cut-remove", "`rm -rf` cut by max_tokens", REMOVE, "length", "rm -rf data"),
    _cut("eos-remove", "`rm -rf` and an early end", REMOVE, "eos", "rm -rf data"),
    _cut(
        "cut-write",
        "a file cut by max_tokens",
        Write("log.txt", LOG),
        "length",
        "Action: ls",
    ),
    _cut(
        "stop-write",
        "a file cut by a stop string",
        Write("log.txt", LOG),
        "stop",
        "Observation:",
    ),
    _cut("cut-optional", "all optional, cut by max_tokens", CLEAR, "length", "data"),
    _cut(
        "full-optional",
        "all optional, cut by max_tokens, not streamed",
        CLEAR,
        "length",
        "data",
        stream=False,
    ),
    _cut(
        "stop-optional",
        "all optional, cut by a stop string, not streamed",
        CLEAR,
        "stop",
        "/tmp",
        stream=False,
    ),
)

#: By name, in the order of the table.
ALL = {s.name: s for s in _ALL}
#: Those that end within a call.
CUT = {name for name, scenario in ALL.items() if scenario.is_cut}
#: Those with a second question in a session.
AGAIN = {name for name, scenario in ALL.items() if scenario.questions > 1}
#: Those in which the cut call's tool has optional parameters alone.
OPTIONAL = {name for name in CUT if ALL[name].turns[0].parts == (CLEAR,)}


def render(turn: Turn, calls: list[Call]) -> str:
    """Return what the model says, with calls as the chat template writes them,
    unescaped.
    """
    text = f"{turn.thought}\n</think>\n\n"
    waiting, before = iter(calls), ""
    for part in turn.parts:
        if isinstance(part, Say):
            text += ("\n" if before == "call" else "") + part.text
            before = "text"
        else:
            text += {"call": "\n", "text": "\n\n"}.get(before, "")
            text += render_call(next(waiting))
            before = "call"
    return text


def render_call(call: Call) -> str:
    """Return a call as Qwen3-Coder's and Qwen3.5's chat templates write it."""
    lines = ["<tool_call>", f"<function={call.name}>"]
    for key, value in call.arguments.items():
        said = value if isinstance(value, str) else json.dumps(value)
        lines += [f"<parameter={key}>", said, "</parameter>"]
    return "\n".join([*lines, "</function>", "</tool_call>"])


def fill(
    scenario: Scenario, call: Callable[[Part], Call], deferred: tuple[Call, Call] | None
) -> Scenario:
    """Return a client's scenario, with its own calls quoted: ``call`` makes one."""
    quotes = {name: render_call(call(part)) for name, part in QUOTES.items()}
    flat = quotes[SHELL].replace("\n", "")
    opener = flat[: flat.index(">", flat.index("<function=")) + 1]

    def line(text: str) -> str:
        before, at, name = text.partition("@")
        if (quote := quotes.get(at + name)) is None:
            return text.replace(LINE, flat).replace(OPENER, opener)
        return "\n".join(before + part for part in quote.split("\n"))

    def filled(text: str) -> str:
        return "\n".join(map(line, text.split("\n")))

    def piece(part: Part) -> Part:
        if isinstance(part, (Load, Loaded)) and deferred:
            return deferred[isinstance(part, Loaded)]
        if isinstance(part, Write):
            return replace(part, content=filled(part.content))
        if isinstance(part, Edit):
            return replace(part, document=filled(part.document))
        return replace(part, text=filled(part.text)) if isinstance(part, Say) else part

    turns = tuple(
        replace(turn, thought=filled(turn.thought), parts=tuple(map(piece, turn.parts)))
        for turn in scenario.turns
    )
    files = {name: filled(text) for name, text in scenario.files.items()}
    edits = (part for turn in turns for part in turn.parts if isinstance(part, Edit))
    return replace(
        scenario, turns=turns, files=files | {e.path: e.result for e in edits}
    )


def content(turn: Turn) -> str:
    """Return the text that the client must receive, white space at its ends aside."""
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, Say))
