# SPDX-License-Identifier: Apache-2.0
"""Sloppy frames: calls with something between, before, behind or around their tags, or
with a tag misspelled, twice or missing.

Nobody has promised how they are read, so the lane ``peers`` compares what a reader
makes of them with what other engines do; values hold no tags, so that what the model
meant is plain.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial

from conformance.case import Call, Case
from conformance.corpora.case import make

CALLS = {
    "bash": (Call("bash", {"command": "ls -la"}),),
    "write": (Call("write", {"file_path": "a.md", "content": "one\ntwo"}),),
    "read, bash": (
        Call("read", {"file_path": "a.md", "offset": 3}),
        Call("bash", {"command": "git status", "description": "Look"}),
    ),
    "bash, edit, read": (
        Call("bash", {"command": "ls"}),
        Call("edit", {"file_path": "a", "old_string": "b", "new_string": "c"}),
        Call("read", {"file_path": "b.md"}),
    ),
}

INSERTS = {
    "word": "then",
    "sentence": "Now the next one.",
    "words with a colon": "Path:",
    "comma": ",",
    "semicolon": ";",
    "dot": ".",
    "rule": "---",
    "brace": "{",
    "closing brace": "}",
    "brackets": "[]",
    "quote": '"',
    "fence": "```",
    "fence with a word": "```xml",
    "XML comment": "<!-- next -->",
    "line comment": "# next",
    "slash comment": "// next",
    "spaces": "   ",
    "no-break space": "\u00a0",
    "zero-width space": "\u200b",
    "blank lines": "\n\n",
    "carriage return": "\r",
    "<br>": "<br>",
    "</think>": "</think>",
    "<think></think>": "<think>\n\n</think>",
    "<parameters>": "<parameters>",
    "</parameters>": "</parameters>",
    "<arguments>": "<arguments>",
    "</arguments>": "</arguments>",
    "<invoke>": '<invoke name="x">',
    "</invoke>": "</invoke>",
    "<function_calls>": "<function_calls>",
    "</function_calls>": "</function_calls>",
    "<tool_calls>": "<tool_calls>",
    "</tool_calls>": "</tool_calls>",
    "</tool_response>": "</tool_response>",
    "<tool_call>": "<tool_call>",
    "</tool_call>": "</tool_call>",
    "</function>": "</function>",
    "</parameter>": "</parameter>",
}
#: What stands before and behind an insert.
LAYOUTS = {
    "own line": ("\n", "\n"),
    "behind the tag": ("", "\n"),
    "before the tag": ("\n", ""),
    "between the tags": ("", ""),
}
WRAPPERS = {
    "<parameters>": ("<parameters>", "</parameters>"),
    "<arguments>": ("<arguments>", "</arguments>"),
    "<args>": ("<args>", "</args>"),
    "<input>": ("<input>", "</input>"),
    "<invoke>": ("<invoke>", "</invoke>"),
    "<function_calls>": ("<function_calls>", "</function_calls>"),
    "<tool_calls>": ("<tool_calls>", "</tool_calls>"),
    "<tool_use>": ("<tool_use>", "</tool_use>"),
    "<tools>": ("<tools>", "</tools>"),
    "braces": ("{", "}"),
    "brackets": ("[", "]"),
    "quotes": ('"', '"'),
    "asterisks": ("**", "**"),
    "backticks": ("`", "`"),
    "code fence": ("```xml", "```"),
    "<tool_call>": ("<tool_call>", "</tool_call>"),
}
#: What a wrapper stands around: before every tag of one kind, and of another.
AROUND = {
    "parameters": ("parameter", "/function"),
    "function": ("function", "/tool_call"),
    "call": ("tool_call", "end"),
}
#: What becomes of a tag; ``{n}`` is its word, ``{v}`` the name that it gives.
OPENING = {
    "missing": "",
    "twice": "<{n}={v}>\n<{n}={v}>",
    "twice, joined": "<{n}={v}><{n}={v}>",
    "space first": "< {n}={v}>",
    "space last": "<{n}={v} >",
    "space before =": "<{n} ={v}>",
    "space behind =": "<{n}= {v}>",
    "spaces around =": "<{n} = {v}>",
    "double quotes": '<{n}="{v}">',
    "single quotes": "<{n}='{v}'>",
    "attribute": '<{n} name="{v}">',
    "type behind": '<{n}={v} type="string">',
    "colon": "<{n}:{v}>",
    "capitals": "<{N}={v}>",
    "plural": "<{n}s={v}>",
    "slash last": "<{n}={v}/>",
    "no >": "<{n}={v}",
    "newline within": "<{n}={v}\n>",
}
PLAIN = {
    "missing": "",
    "twice": "<{n}>\n<{n}>",
    "twice, joined": "<{n}><{n}>",
    "space first": "< {n}>",
    "space last": "<{n} >",
    "space behind /": "</ {m}>",
    "capitals": "<{N}>",
    "plural": "<{n}s>",
    "no >": "<{n}",
    "no /": "<{m}>",
    "with its name": "<{n}={v}>",
}
EDITS = {True: OPENING, False: PLAIN}
TEXTS = ("value", "end")
GAPS = {
    "CRLF": "\r\n",
    "one line": "",
    "one line, spaces": " ",
    "blank lines": "\n\n",
    "space behind each tag": " \n",
    "indented by 2": "\n  ",
    "indented by a tab": "\n\t",
}
BESIDE_VALUES = ("CRLF", "one line")
BEFORE = {"": "", "prose before": "I look.\n", "prose on its line": "I look. "}
BEHIND = {"": "", "newline behind": "\n", "prose behind": "\n\nThat is all."}
#: Of two sloppy places in one output.
PAIRS = 4000


class Frame:
    """An output in parts: what stands before each tag or value, and it.

    Attributes:
        parts: Gap, kind (``function``, ``/parameter``, ``value`` …), text, and the
            name that the tag gives.

    """

    def __init__(self, calls: tuple[Call, ...]) -> None:
        self.parts: list[list[str]] = []
        for call in calls:
            self._add("tool_call")
            self._add("function", call.name)
            for key, value in call.texts().items():
                self._add("parameter", key)
                self.parts.append(["\n", "value", value, key])
                self._add("/parameter", key)
            self._add("/function", call.name)
            self._add("/tool_call")
        self.parts[0][0] = ""
        self.parts.append(["", "end", "", ""])

    def _add(self, kind: str, name: str = "") -> None:
        given = f"={name}" if kind in ("function", "parameter") else ""
        self.parts.append(["\n", kind, f"<{kind}{given}>", name])

    def text(self) -> str:
        return "".join(gap + text for gap, _, text, _ in self.parts)

    def joints(self) -> Iterator[tuple[str, int]]:
        """Yield the places between two tags, and both ends: a name, and the part
        behind it.
        """
        kinds = ["start", *(part[1] for part in self.parts)]
        for at, (first, second) in enumerate(itertools.pairwise(kinds)):
            if "value" not in (first, second):
                yield f"{at}, {first} and {second}", at

    def insert(self, at: int, text: str, layout: str) -> None:
        first, last = LAYOUTS[layout]
        is_end = self.parts[at][1] == "end"
        self.parts[at][0] = (first if at else "") + text + ("" if is_end else last)

    def wrap(self, around: str, wrapper: str, layout: str) -> None:
        """Put a wrapper around every call's parameters, function or tags, or all."""
        first, last = AROUND.get(around, AROUND["call"])
        kinds = [part[1] for part in self.parts]
        opened = [at for at, kind in enumerate(kinds) if kind == first]
        closed = [at for at, kind in enumerate(kinds) if kind == last]
        if around == "parameters":  # the first of each call
            opened = [at for at in opened if kinds[at - 1] == "function"]
        elif around == "call":
            closed = [at + 1 for at, kind in enumerate(kinds) if kind == "/tool_call"]
        else:
            opened = opened[:1] if around == "all calls" else opened
        opener, closer = WRAPPERS[wrapper]
        for at in opened:
            self.insert(at, opener, layout)
        for at in closed:
            gap = self.parts[at][0] if at in opened else ""
            self.insert(at, closer, layout)
            self.parts[at][0] += gap

    def edit(self, kind: str, edit: str, which: str) -> None:
        """Write the first tag of a kind otherwise, the last, or all."""
        some = [part for part in self.parts if part[1] == kind]
        form, word = EDITS[kind in ("function", "parameter")][edit], kind.strip("/")
        for part in {"first": some[:1], "last": some[-1:], "all": some}[which]:
            part[2] = form.format(n=kind, N=kind.upper(), m=word, v=part[3])
            part[0] = part[0] if form else ""  # with its line

    def space(self, gap: str) -> None:
        """Write all white space between tags otherwise; beside a value, its newline
        or none.
        """
        for before, part in itertools.pairwise(self.parts):
            beside = "value" in (before[1], part[1])
            if part[1] != "end" and (not beside or gap in BESIDE_VALUES):
                part[0] = GAPS[gap]


Fault = tuple[str, Callable[[Frame], None]]


def _faults(frame: Frame) -> Iterator[Fault]:
    """Yield what can be done to a frame: a name, and what does it."""
    for (joint, at), insert, layout in itertools.product(
        frame.joints(), INSERTS, LAYOUTS
    ):
        name = f"{joint} / {insert} / {layout}"
        yield name, partial(Frame.insert, at=at, text=INSERTS[insert], layout=layout)
    for words in itertools.product(
        (*AROUND, "all calls"), WRAPPERS, ("own line", "between the tags")
    ):
        around, wrapper, layout = words
        name = f"around {around} / {wrapper} / {layout}"
        yield name, partial(Frame.wrap, around=around, wrapper=wrapper, layout=layout)
    for kind in dict.fromkeys(part[1] for part in frame.parts):
        edits = EDITS[kind in ("function", "parameter")] if kind not in TEXTS else ()
        for edit, which in itertools.product(edits, ("first", "last", "all")):
            name = f"<{kind}> / {edit} / {which}"
            yield name, partial(Frame.edit, kind=kind, edit=edit, which=which)
    for gap in GAPS:
        yield f"gaps / {gap} / all", partial(Frame.space, gap=gap)


def cases() -> Iterator[Case]:
    """Yield each fault of each output, then pairs of faults by seed."""
    rng, seen = random.Random("frames"), set[str]()

    def case(name: str, some: list[Fault], *around: str) -> Iterator[Case]:
        frame = Frame(CALLS[name])
        for _, do in some:
            do(frame)
        output = BEFORE[around[0]] + frame.text() + BEHIND[around[1]]
        if output not in seen:
            seen.add(output)
            fault = " + ".join(each.replace(" / ", ", ") for each, _ in some)
            title = fault if len(some) > 1 else some[0][0]
            title = " / ".join(filter(None, (name, title, *around)))
            why = "nobody has promised how a sloppy frame is read"
            yield make(title, output, CALLS[name], ambiguous=why)

    faults = {name: list(_faults(Frame(calls))) for name, calls in CALLS.items()}
    for name, each in faults.items():
        for fault in each:
            yield from case(name, [fault], "", "")
    for name in rng.choices(list(CALLS), k=PAIRS):
        around = rng.choice(list(BEFORE)), rng.choice(list(BEHIND))
        yield from case(name, rng.sample(faults[name], 2), *around)
