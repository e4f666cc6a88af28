# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Incremental reader of the Qwen3-Coder tool-call format.

The chat template renders a call without escaping its values, so a tag may be
*structural*, of a call's frame, or *literal*: text of a value, an answer or a
reasoning that talks about tool calls.  Evidence decides: the position of a call,
the spelling of a closing tag, the tool's schema, the blocks that a value quotes,
and what follows.  What it leaves open is held, at most until the model's own end
of the output.  Token ids prove nothing, because a model writing *about* tool calls
emits the very same ones.  The events, joined, are the same for every cut.

:class:`Lexer` cuts the text into tokens: tags, wherever they stand, and the text
between them.  Each state of :class:`QwenToolReader` is a method that reads a
token and returns the next state::

    think_opening -> reasoning -> answer | call
    answer -> call | json_call | garbled_call | reasoning (before visible text)
    call -> value_start -> value -> call
    call, value, json_call, garbled_call -> after_call | after_held_call
    after_call -> answer | call | json_call | garbled_call
    after_held_call -> call | json_call | garbled_call
    after_held_call -> answer, reasoning (the calls were text)

Calls can be held, or what may end a value; a call without ``<tool_call>`` can be
held with what may end its value.  Reading goes on in one of the two readings, and
its events wait.  When the other one is right, they are dropped, and the reader goes
back to where the readings part.

A ``</parameter>`` in a value is decided on by ``_RULES``: the rules of
docs/format.md, in its order.
"""

from __future__ import annotations

import copy
import enum
import itertools
import json
import re as std_re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import regex as re


# Strings, like the kinds of tokens: Python 3.11 takes 0.1 us to look up an enum's
# member, and some ten are looked up for a tag.
class EventType:
    REASONING = "REASONING"  # its text
    REASONING_END = "REASONING_END"
    CONTENT = "CONTENT"  # text of the answer
    CALL = "CALL"  # begins; its function's name
    PARAMETER = "PARAMETER"  # begins; its key
    VALUE = "VALUE"  # text of the parameter's value
    VALUE_END = "VALUE_END"
    CALL_END = "CALL_END"
    CALL_CUT = "CALL_CUT"  # the output ends within the call


Event = tuple[str, str]  # what it is, and a text
State = Callable[["QwenToolReader", "Token"], "State"]

THINK_START = "<think>"
THINK_END = "</think>"
TOOL_CALL_START = "<tool_call>"
TOOL_CALL_END = "</tool_call>"
FUNCTION_END = "</function>"

# Longest white space between two tags of one frame.
MAX_GAP = 256
_MAX_TEXT = 1024  # of other text there
_MAX_REPEATS = 4  # of a closing tag that is given more than once
_MAX_REREADS = 8  # of text behind what is not decided at the end
_MAX_JSON = 65_536  # of a value whose strings may hold tags
_MAX_LINE = 1024  # of an answer's line that is kept

# Directly before a call, these quote it.
_QUOTING = "`'\"([{<«»“”„‘’‹›「『（【*_|\\"


# ── Tokens ────────────────────────────────────────────────────────────


class Kind:
    """What a token is: a tag's text, or the group of the pattern that names it."""

    TEXT = "text"
    THINK_START = THINK_START
    THINK_END = THINK_END
    OPENING = "opening"  # of a call, with another tag of the frame behind it
    JSON_OPENING = "json"  # <tool_call>, with an object behind it
    GARBLED_OPENING = "garbled"  # of a call, up to its name, with anything behind it
    FUNCTION = "function"  # the same without <tool_call>
    TOOL_CALL_START = "start"  # with anything behind it
    PARAMETER = "parameter"
    OTHER_PARAMETER = "other"  # as other formats write it
    PARAMETER_END = "</parameter>"
    FUNCTION_END = FUNCTION_END
    TOOL_CALL_END = TOOL_CALL_END
    OTHER_END = "closer"  # as other formats write it
    END = "end"  # of the output


class Token(NamedTuple):
    """A tag, or text without white space at its end."""

    kind: str
    gap: str  # white space before it
    text: str  # of the end, a closing tag that it cuts
    name: str = ""  # what a tag names

    @property
    def in_tool_call(self) -> bool:
        """Whether an opening begins with ``<tool_call>``."""
        return self.text.lstrip("< \t\r\n").startswith("tool_call")


_THINK_TAGS = (Kind.THINK_START, Kind.THINK_END)
_OPENINGS = (Kind.OPENING, Kind.JSON_OPENING, Kind.GARBLED_OPENING)
_CALL_ENDS = (Kind.FUNCTION_END, Kind.TOOL_CALL_END)
_CLOSING = (Kind.PARAMETER_END, *_CALL_ENDS)
_TEXTS = (Kind.TEXT, Kind.OTHER_END, Kind.TOOL_CALL_START, *_THINK_TAGS)
_TOOL_CALL_ENDS = (Kind.TOOL_CALL_END, Kind.OTHER_END)
# Of a call, if other text may stand within them and behind them.
_LOOSE = (Kind.GARBLED_OPENING, Kind.FUNCTION, Kind.TOOL_CALL_START)

# As str.isspace() has it: unlike Python's own, this \s has no U+001C to U+001F.
_GAP = rf"[\s\x1c-\x1f]{{0,{MAX_GAP}}}"
_SPACE = r"[ \t\r\n]{0,4}"  # in a parameter's tags
_NAME = r"(?=[ \t\r\"']*[^<>\n \t\r\"'])[^<>\n]{1,128}"
_START = rf"<{_SPACE}tool_call{_SPACE}>"
_TAG = (
    r"</(?:parameter|function|tool_call)>"
    # Another format's closing tag; the frame's own may follow.
    r"|</(?:invoke|function_invocation|function_calls?)>"
    rf"(?:{_GAP}</tool_call>|(?P<closer>))"
    rf"|<{_SPACE}parameter{_SPACE}=(?P<parameter>{_NAME}){_SPACE}>"
    rf"|<{_SPACE}/{_SPACE}(?P<spaced>parameter|function|tool_call){_SPACE}>"
    r"|<parameter(?P<other>)(?:[ \t][^<>\n]{0,128}(?<!/))?>"
    rf"|(?:{_START}{_GAP})?<{_SPACE}function{_SPACE}=(?P<opening>{_NAME}){_SPACE}>"
    rf"(?={_GAP}(?:<parameter={_NAME}>|</function>|</tool_call>))"
    rf"|<tool_call>{_GAP}(?P<json>)(?=\{{)"
)
_TAGS = {True: re.compile(rf"</?think>|{_TAG}"), False: re.compile(_TAG)}
# Only where no tag matches.
_GARBLED = re.compile(
    rf"{_START}{_GAP}<{_SPACE}function{_SPACE}=(?P<garbled>[^\s<>(]{{1,128}})>?"
    r"|<function=(?P<function>[^\s<>(]{1,128})>?|<tool_call>(?P<start>)"
)
# On the line, before any tag.
_WORD = re.compile(r"[^\w\n<]*+\w")
# A closing tag, or what a tag may begin with: the standard library's search is the
# faster one.
_BEGINNING = std_re.compile(
    r"<(?:(/(?:parameter|function|tool_call)>)"
    r"|/?(?:par|fun|too|thi|inv|(?:pa?|fu?|to?|th?|in?)?\Z)"
    rf"|{_SPACE}/?{_SPACE}(?:par|fun|too|(?:pa?|fu?|to?)?\Z))"
)
_CUT_CLOSING_TAGS = frozenset(
    tag[:end] for tag in _CLOSING for end in range(1, len(tag))
)


class _Tag(NamedTuple):
    """Where a tag stands in a text, what it is (of an empty one ``TEXT``), its name."""

    start: int
    end: int
    kind: str
    name: str


class Lexer:
    """Cuts the output into tokens; its *rest* may be the beginning of a tag."""

    def __init__(self, think_tags: bool) -> None:
        self.rest = ""
        self._tag = _TAGS[think_tags]
        self._gap: list[str] = []  # white space that was read

    def feed(self, text: str, final: bool = False) -> list[Token]:
        """Tokens of the output's next piece, and of its end if it is *final*."""
        text = self.rest + text
        return self._tokens_of(text, self._next_tag(text, 0, final), final)

    def plain(self, text: str) -> str | list[Token]:
        """Text of a piece without tags, with the white space before it; else tokens.

        White space and the beginning of a tag at its end are kept for what follows.
        """
        if self.rest or "<" in text:
            text = self.rest + text
            tag = self._next_tag(text, 0)
            if tag.kind != Kind.TEXT:
                return self._tokens_of(text, tag)
            text, self.rest = text[: tag.start], text[tag.start :]
        body = text.rstrip()
        before = self.take_gap() if body and self._gap else ""
        if len(body) < len(text):
            self._gap.append(text[len(body) :])
        return before + body

    def _next_tag(self, text: str, at: int, final: bool = False) -> _Tag:
        """The next tag, or an empty one: where the text ends, or a tag may begin."""
        while (beginning := _BEGINNING.search(text, at)) is not None:
            at = beginning.start()
            if beginning[1]:
                return _Tag(at, beginning.end(), beginning[0], "")
            match = self._tag.match(text, at, partial=True)
            is_cut = match is not None and match.partial
            if is_cut and (not final or text[at:] in _CUT_CLOSING_TAGS):
                return _Tag(at, at, Kind.TEXT, "")
            if match is None:
                match = _GARBLED.match(text, at)
            if match is not None and not is_cut:
                tag, named = match.group(), match.lastgroup
                name = trim_name(match[named]) if named else ""
                kind = named or tag[max(tag.rfind("</"), 0) :]
                kind = f"</{name}>" if named == "spaced" else kind
                return _Tag(at, match.end(), kind, name)
            at += 1
        return _Tag(len(text), len(text), Kind.TEXT, "")

    def _tokens_of(self, text: str, tag: _Tag, final: bool = False) -> list[Token]:
        """Tokens of a text whose first tag was found."""
        tokens: list[Token] = []
        at = 0
        while tag.kind != Kind.TEXT:
            start, end, kind, name = tag
            self._add_text(tokens, text[at:start])
            tokens.append(Token(kind, self.take_gap(), text[start:end], name))
            at, tag = end, self._next_tag(text, end, final)
        self._add_text(tokens, text[at : tag.start])
        self.rest = text[tag.start :]
        if final:
            tokens.append(Token(Kind.END, self.take_gap(), self.rest))
        return tokens

    def _add_text(self, tokens: list[Token], text: str) -> None:
        if body := text.strip():
            before, _, text = text.partition(body)
            self._gap.append(before)
            tokens.append(Token(Kind.TEXT, self.take_gap(), body))
        if text:
            self._gap.append(text)

    def add_gap(self, gap: str) -> None:
        self._gap.append(gap)

    def take_gap(self) -> str:
        if not self._gap:
            return ""
        gap = "".join(self._gap)
        self._gap.clear()
        return gap


def trim_name(name: str) -> str:
    """The name in a tag, without the white space and quotes around it."""
    return name.strip(" \t\r\"'")


def split_gap(gap: str, starts_line: bool = False) -> tuple[str, str | None]:
    """Split white space before a tag, which may begin on a new line.

    Returns:
        What of it belongs to a value that the tag ends, and the tag's indentation
        if it is first on its line: that and the newline before it are frame.
    """
    value, newline, indent = gap.rpartition("\n")
    if (newline or starts_line) and not indent.strip(" \t"):
        return value, indent
    return gap, None


def is_beside(gap: str) -> bool:
    """Whether a call stands behind another on its line, or begins a line."""
    return "\n" not in gap or gap.endswith("\n")


def read_json_call(text: str) -> tuple[str, dict[str, str]] | None:
    """Name and values, as text, of a call that is written as a JSON object."""
    call = _read_object(text)
    if call is None:
        return None
    name, arguments = call.pop("name", None), call.pop("arguments", {})
    if isinstance(arguments, str):
        arguments = _read_object(arguments)
    if call or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return name, _texts(arguments)


def read_garbled_call(
    body: str, declared: Collection[str]
) -> tuple[dict[str, str], bool]:
    """What can be read of a call whose tags are garbled.

    Args:
        body: What stands between its function's name and its closing tags.
        declared: Parameter names of the function.

    Returns:
        Values, as text, and whether that is all that the body says.
    """
    body = body.strip().removeprefix(">").strip()
    if body.startswith("{"):
        found = _read_object(body)
        is_call = found is not None and all(key in declared for key in found)
        return (_texts(found or {}), True) if is_call else ({}, False)
    values: dict[str, str] = {}
    *pieces, rest = body.split(Kind.PARAMETER_END)
    is_all = not rest.strip()
    for piece in pieces:
        match = _GARBLED_PARAMETER.match(piece)
        key = trim_name(match[1]) if match else ""
        if match and key and (match[2] == ">" or key in declared):
            value = piece[match.end() :]
            values[key] = value.removeprefix("\n").removesuffix("\n")
        else:
            is_all = is_all and not piece.strip()
    return values, is_all


_GARBLED_PARAMETER = re.compile(r"\s*+<parameter=([^<>\n=]{1,128})([=>])")


# An escape of JSON, or a backslash that begins none.
_BACKSLASH = re.compile(r"(?P<kept>\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4}))|\\'?")


def _read_json(text: str) -> object:
    """What JSON says, in whose strings raw control characters and backslashes that
    begin no escape are themselves; None if it is no JSON.
    """

    def mend(match: re.Match[str]) -> str:
        return match["kept"] or ("'" if match[0] == "\\'" else "\\\\")

    try:
        found = json.loads(_BACKSLASH.sub(mend, text), strict=False)
        json.dumps(found, ensure_ascii=False).encode()  # not with a lone surrogate
    except (ValueError, RecursionError):
        return None
    return found


def _read_object(text: str) -> dict[str, object] | None:
    found = _read_json(text)
    return found if isinstance(found, dict) else None


def _texts(values: dict[str, object]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in values.items()
    }


class _Object:
    """Follows the strings and brackets of an object or an array in JSON.

    Attributes:
        length: Characters that were read.
        in_string: Whether a string is open.
        is_whole: Whether the object has ended,
        is_alone: and there is nothing but white space behind it.
    """

    _MARKS = re.compile(r"\\.?|[\"\[\]{}]", re.DOTALL)

    def __init__(self) -> None:
        self._depth = 0
        self._escape = ""  # a backslash whose character is in the next piece
        self.length = 0
        self.in_string = False
        self.is_whole = False
        self.is_alone = True

    def add(self, text: str) -> None:
        self.length += len(text)
        text, self._escape = self._escape + text, ""
        for match in () if self.is_whole else self._MARKS.finditer(text):
            mark = match[0]
            if mark == "\\":
                self._escape = mark
            elif mark == '"':
                self.in_string = not self.in_string
            elif not self.in_string and len(mark) == 1:
                self._depth += 1 if mark in "[{" else -1
                if self._depth <= 0:
                    self.is_whole = True
                    text = text[match.end() :]
                    break
        self.is_alone = not self.is_whole or not text.strip()


# ── Lines of the answer ───────────────────────────────────────────────


class Position(enum.Enum):
    """Where in the answer's Markdown a call begins."""

    PLAIN = enum.auto()  # on a line of its own, or behind another call
    PROSE = enum.auto()  # behind the prose of its line
    BARE = enum.auto()  # plain, but without <tool_call>
    OTHER = enum.auto()  # in a fence, or quoted, listed or indented


# What opens a code fence, in a quote or a list as well.
_FENCE = re.compile(r"((?:[\s>]|(?:[-*+]|\d{1,9}[.)])(?=\s))*)(`{3,}|~{3,})(.*)")


def _shorten(line: str) -> str:
    """The two ends of a long line, and one character of each kind between them."""
    if len(line) <= _MAX_LINE:
        return line
    middle = line[_MAX_LINE - 1 : -1]
    kept = "".join(mark for mark in " ~`" if mark in middle)
    other = middle.strip("~`").strip()
    kept += ("a" if any(map(str.isalpha, other)) else ".") if other else ""
    return line[: _MAX_LINE - 1] + kept + line[-1]


class _Lines:
    """The line and the code fence in which an answer's text ends.

    Attributes:
        ended: How many lines ended.
        fence: What opened the code fence that is open.
        closed: How many code fences were closed.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []  # that were not read yet
        self._line = ""  # the last line; of a long one, both ends
        self._behind_call = True  # or at the beginning
        self._quoted = False  # the fence was opened in a block quote
        self.ended = 0
        self.fence = ""
        self.closed = 0

    @property
    def begins(self) -> bool:
        """Whether a line begins, in a code fence or not."""
        return not self.read()._line

    def add(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) > 256:
            self.read()

    def copy(self) -> _Lines:
        lines = copy.copy(self.read())
        lines._pieces = []  # else both would collect into one list
        return lines

    def end_call(self) -> None:
        """A call ended: what follows is on a line of its own."""
        self._end_line(self.read()._line)
        self._line, self._behind_call = "", True

    def position(self, opening: str = "") -> Position:
        """Where a call begins; of several lines it is plain behind prose as well."""
        line = self.read()._line
        self._leave_quote(line)
        if self.fence:
            return Position.OTHER
        if not line or (self._behind_call and line.isspace()):
            return Position.PLAIN
        if line[-1] in _QUOTING or not any(map(str.isalpha, line)):
            return Position.OTHER
        return Position.PLAIN if "\n" in opening else Position.PROSE

    def read(self) -> _Lines:
        """Read the pieces that were collected."""
        *lines, last = "".join([self._line, *self._pieces]).split("\n")
        self._pieces.clear()
        for line in lines:
            self._end_line(line)
        self._line = _shorten(last)
        return self

    def _leave_quote(self, line: str) -> None:
        """Close a fence with the block quote that it was opened in."""
        if self.fence and self._quoted and not line.lstrip(" \t").startswith(">"):
            self.fence = ""
            self.closed += 1

    def _end_line(self, line: str) -> None:
        self.ended += 1
        self._behind_call = False
        self._leave_quote(line)
        if "```" not in line and "~~~" not in line:
            return
        line = _shorten(line)
        if self.fence:
            marks = line.strip()
            if marks.startswith(self.fence) and not marks.strip(marks[0]):
                self.fence = ""
                self.closed += 1
        elif (match := _FENCE.match(line)) is not None:
            before, marks, rest = match.groups()
            if marks[0] == "~" or "`" not in rest:
                self.fence, self._quoted = marks, ">" in before


# ── What is held ──────────────────────────────────────────────────────


@dataclass(slots=True)
class _Held:
    """A reading that waits to be decided.

    Attributes:
        lines: The answer's lines in the other reading, up to
        seen: the token of this index.
        back: Index of the token at which the other reading goes on.
        events: What this reading says.
    """

    lines: _Lines
    seen: int
    back: int
    events: list[Event] = field(default_factory=list, kw_only=True)

    def lines_to(self, tokens: list[Token], at: int) -> _Lines:
        """The lines up to the token at *at*."""
        for seen in range(self.seen, at):
            self.lines.add(tokens[seen].text + tokens[seen + 1].gap)
        self.seen = max(self.seen, at)
        return self.lines.read()


@dataclass(slots=True)
class _HeldCalls(_Held):
    """Calls that count only if nothing but calls follows; else text.

    Attributes:
        start: Index of their first token.
        opening: Index of the token behind the last call's opening.
        in_reasoning: Whether they begin in the reasoning,
        reasoning_ended: and it ended behind them.
        position: Where they begin; behind prose only their line must end, and bare
            ones are read as if they counted.
    """

    start: int
    opening: int
    in_reasoning: bool
    position: Position
    reasoning_ended: bool = False


class _Weight(enum.IntEnum):
    """What speaks for a closing sequence."""

    PART = enum.auto()  # a tag of it is missing
    CLAIMED = enum.auto()  # a quoted parameter claims it
    SPELLED = enum.auto()  # it is whole
    MIRRORED = enum.auto()  # and spelled as the parameter's opening tag


@dataclass(slots=True)
class _HeldEnd(_Held):
    """A closing sequence, or a part of one, that is literal; else a value's end."""

    weight: _Weight


@dataclass(slots=True)
class _Quote:
    """A block, or a parameter alone, that a value quotes."""

    name: str | None  # its function; None for a parameter alone
    in_tool_call: bool = False  # <tool_call> began it
    in_parameter: bool = False  # one of its own parameters is open
    in_line: bool = False  # and began in the middle of a line


@dataclass(slots=True, frozen=True, kw_only=True)
class _Closer:
    """A ``</parameter>`` in a value, and what decides on it.

    Attributes:
        mirrors: It is spelled as the parameter's opening tag.
        yields: A second one follows, which alone is spelled so.
        behind: Index of the token behind it, and behind those that repeat it.
        following: What that is; ``FUNCTION_END`` for the rest of a closing sequence.
        end: Index behind the closing sequence.
        is_last: Nothing follows the closing sequence.
        has_key: A parameter follows,
        is_due: whose key the call still lacks.
        quote: What is quoted there,
        takes: and may have that parameter.
        held: What is held to be the value's end.
        in_held_call: The call itself is held.
        begins_line: The value begins on a line of its own.
        is_forgiven: What follows forgives the call's missing closing tags.
    """

    token: Token
    mirrors: bool
    yields: bool
    behind: int
    following: str
    end: int
    is_last: bool
    has_key: bool
    is_due: bool
    quote: _Quote | None
    takes: bool
    held: _HeldEnd | None
    in_held_call: bool
    begins_line: bool
    is_forgiven: bool

    @property
    def claims(self) -> bool:
        """Whether a quoted parameter claims the tag."""
        return self.quote is not None and self.quote.in_parameter

    @property
    def in_block(self) -> bool:
        return self.quote is not None and self.quote.name is not None

    @property
    def is_free(self) -> bool:
        """Whether nothing is held."""
        return self.held is None and not self.in_held_call

    @property
    def is_sequence(self) -> bool:
        """Whether it begins a closing sequence that no block claims."""
        is_claimed = self.claims and self.in_block
        is_own = not is_claimed or (self.is_free and self.is_last)
        return is_own and self.following == Kind.FUNCTION_END

    @property
    def closes_parameter(self) -> bool:
        """Whether it mirrors its opener before a parameter of the outer call."""
        is_outer = self.held is None or self.held.weight is _Weight.PART
        return self.has_key and self.mirrors and not self.takes and is_outer

    @property
    def is_bare(self) -> bool:
        """Whether nothing is quoted or held where the tag stands."""
        return self.quote is None and self.held is None


class NeedMore(Exception):
    """What follows decides, and is not there yet."""


class QwenToolReader:
    """Reads one output, in any pieces, into events.

    Args:
        tool_names: Names of the request's tools; without any nothing is a call.
        parameters_of: Declared parameter names of one of these tools.
        required_of: Those that a call must give, and not as null.
        takes_json: Whether a function's parameter is an array or an object, and no
            string.
        reasoning: Whether the output begins inside the reasoning.
        think_tags: Whether ``<think>`` and ``</think>`` are frame; else text.
        undeclared_calls: Whether other functions than the tools can be called.
        constrained: Whether a grammar requires a call: it takes an opening at the
            beginning of a line of the reasoning for the answer's.
        prefix: Text of the answer that stands before the output; it is not
            delivered, and no call begins in it.

    Feed the output with :meth:`feed`, then call :meth:`finish` once.

    Attributes:
        outcomes: Calls that were held and count, whose end was forgiven, or that
            were held and are text.
    """

    def __init__(
        self,
        tool_names: Collection[str] = (),
        parameters_of: Callable[[str], Collection[str]] = lambda name: (),
        *,
        required_of: Callable[[str], Sequence[str]] = lambda name: (),
        takes_json: Callable[[str, str], bool] = lambda name, key: False,
        reasoning: bool = False,
        think_tags: bool = True,
        undeclared_calls: bool = True,
        constrained: bool = False,
        prefix: str = "",
    ) -> None:
        self._constrained = constrained
        self._tool_names = tool_names
        self._parameters_of = parameters_of
        self._required_of = required_of
        self._takes_json = takes_json
        self._undeclared_calls = undeclared_calls

        self._state: State = _THINK_OPENING if reasoning else _ANSWER
        self._lexer = Lexer(think_tags)
        self._tokens: list[Token] = []  # that may be read, or read again
        self._at = 0  # of the next one
        self._later: list[str] = []  # pieces that were not cut into tokens yet
        self._delivered: list[Event] = []  # of this piece of the output
        self._events = self._delivered
        self._held_calls: _HeldCalls | None = None
        self._held_end: _HeldEnd | None = None
        self._rereads = 0
        self._answered = bool(prefix.strip())  # the answer has visible text
        self._space: list[str] = []  # white space around think tags
        self._gap: str | None = None  # longest around the calls since the text
        self._lines = _Lines()
        self._lines.add(prefix)
        self._declared: Collection[str] = ()
        self._required: Sequence[str] = ()
        self._first_missing = 0  # of these; those before it were given
        self._in_crlf: bool | None = None  # whether each line of the frame ends so
        self._given: set[str] = set()
        # What led from a closing sequence to a call in the call's earlier values.
        self._quoted: set[str] = set()
        self._indent: str | None = None  # of its closing tag; None: on any line
        self._function = ""  # that is called
        self._json: _Object | None = None  # that the value may be, while it may
        self._json_tokens = 0  # of the value, that were read into it
        self._opening = ""  # the tag of the value at hand
        self._quotes: list[_Quote] = []  # that are open
        self._object = _Object()  # that a held call is, or holds
        self._in_garbled = False  # a parameter of a garbled call is open
        self.outcomes = {"held": 0, "forgiven": 0, "text": 0}
        self._tag_gap = ""  # the value's white space before a tag, if that ends it
        self._tag_indent: str | None = None  # of a tag that is first on its line

    @property
    def in_call(self) -> bool:
        """Whether a call is open, counted or held."""
        rest = self._lexer.rest.rstrip()  # an opening waits for the tag behind it
        is_open = "<function=" in rest and rest.endswith(">")
        return is_open or self._state in (*_CALL_STATES, _JSON_CALL, _GARBLED_CALL)

    @property
    def in_reasoning(self) -> bool:
        if (held := self._held_calls) is not None:
            return held.in_reasoning
        return self._state is _REASONING or self._state is _THINK_OPENING

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of the output."""
        if self._at == len(self._tokens):
            # Most pieces only go on with the text before them, and decide nothing.
            if self._held_end is not None:
                if "<" not in text and not self._lexer.rest:
                    self._later.append(text)
                    return []
            elif (
                (in_value := self._state is _VALUE and self._held_calls is None)
                or (in_reasoning := self._state is _REASONING and not self._space)
                or (self._state is _ANSWER and self._answered)
            ):
                plain = self._lexer.plain(text)
                if not isinstance(plain, str):
                    self._tokens += plain
                    return self._read()
                if in_value:
                    return [(EventType.VALUE, plain)] if plain else []
                self._lines.add(plain)
                event = EventType.REASONING if in_reasoning else EventType.CONTENT
                return [(event, plain)] if plain else []
        self._tokens += self._lexer.feed("".join([*self._later, text]))
        self._later.clear()
        return self._read()

    def finish(self, cut: bool = False, *, stopped: bool = False) -> list[Event]:
        """Decide what is held at the output's end.

        Args:
            cut: The output is cut: its end decides nothing.
            stopped: The closing tag that was fed last was a stop string, which
                cuts the output too unless it ends a call.
        """
        if cut and self._at == len(self._tokens) and not self._later:
            self._drop_opening()
        self._tokens += self._lexer.feed("".join(self._later), final=True)
        if cut or (stopped and not self._is_stopped_call()):
            self._accept_calls_of_lines(self._at)
            if self._held_calls is not None:
                is_over = self._held_calls.reasoning_ended
                end = self._held_calls.back if is_over else len(self._tokens) - 1
                self._state = self._quote_calls(end)
            elif self._state in _CALL_STATES:
                self._state = self._cut_call(self._tokens[self._at])
        return self._read()

    def _is_stopped_call(self) -> bool:
        """Whether the closing tags at the end are those of the call."""
        if self._state not in (_VALUE_START, _VALUE):
            return True
        kinds = [token.kind for token in self._tokens[self._at : -1]]
        begins = kinds[:1] == [Kind.PARAMETER_END] and not self._quotes
        return begins and all(kind in _CLOSING for kind in kinds)

    def _drop_opening(self) -> None:
        """Drop the opening of a call in which a cut output ends: it is frame."""
        rest = self._lexer.rest
        if self._state not in (_ANSWER, _AFTER_CALL) or not self._tool_names:
            return
        if rest.startswith((TOOL_CALL_START, "<function=")):
            gap = self._lexer.take_gap()
            lines = self._lines.copy()
            lines.add(gap)
            if lines.position(rest) is Position.PLAIN:
                self._lexer.rest = ""
            else:
                self._lexer.add_gap(gap)

    def _read(self) -> list[Event]:
        """Read on, as far as the tokens can be decided."""
        tokens = self._tokens
        try:
            while self._at < len(tokens):
                if self._held_calls is not None:
                    self._accept_calls_of_lines(self._at)
                self._at += 1
                self._state = self._state(self, tokens[self._at - 1])
        except NeedMore:
            self._at -= 1
        if self._held_calls is None and self._held_end is None:
            del tokens[: self._at]
            self._at = 0
        events = self._delivered.copy()
        self._delivered.clear()
        return events

    def _emit(self, event: str, text: str = "") -> None:
        if text or event != EventType.VALUE:
            self._events.append((event, text))

    def _think_opening(self, token: Token) -> State:
        """The beginning of the reasoning, which may be ``<think>``."""
        self._state = _REASONING
        if token.kind == Kind.THINK_START and not token.gap:
            return _REASONING
        return self._reasoning(token)

    def _reasoning(self, token: Token) -> State:
        if token.kind == Kind.THINK_END:
            self._deliver(token.gap, "")
            self._end_reasoning()
            return _ANSWER
        self._lines.add(token.gap)
        if self._constrained and self._is_required_call(token):
            self._end_reasoning()
            self._state = _ANSWER
            return self._answer(token)
        return self._begin_call(token) or self._deliver(token.gap, token.text)

    def _is_required_call(self, token: Token) -> bool:
        """Whether the grammar of a required call begins at a token."""
        is_opening = token.kind == Kind.OPENING and token.name in self._tool_names
        begins = is_opening and token.text.startswith(TOOL_CALL_START)
        return begins and self._lines.begins

    def _end_reasoning(self) -> None:
        self._emit(EventType.REASONING_END)
        self._lines = _Lines()

    def _answer(self, token: Token) -> State:
        """The answer; until it has visible text think tags are frame."""
        token = self._joined(token)
        self._lines.add(token.gap)
        if token.kind in _THINK_TAGS and not self._answered:
            self._space.append(token.gap)
            return _REASONING if token.kind == Kind.THINK_START else _ANSWER
        return self._begin_call(token) or self._deliver(token.gap, token.text)

    def _after_call(self, token: Token) -> State:
        """Behind a call, where closing tags are given twice."""
        token = self._joined(token)
        self._lines.add(token.gap)
        kind = token.kind
        is_dropped = kind == Kind.THINK_END and not self._answered
        is_dropped = is_dropped or kind in _CLOSING or kind == Kind.OTHER_END
        if is_dropped or (kind == Kind.END and not token.text):
            self._close_gap(token.gap)
            return _AFTER_CALL
        self._state = _ANSWER
        return self._begin_call(token) or self._deliver(token.gap, token.text)

    def _deliver(self, gap: str, text: str) -> State:
        """Deliver text of answer or reasoning behind white space.

        White space before a call belongs to the call's frame; the longest around
        calls that stand between text separates it.
        """
        space = "".join([*self._space, gap])
        self._space.clear()
        self._lines.add(text)
        event = EventType.REASONING
        if self._state is not _REASONING:
            event = EventType.CONTENT
            if self._gap is not None:
                self._close_gap(gap)
                space, self._gap = self._gap, None
            self._answered = True
        if space or text:
            self._emit(event, space + text)
        return self._state

    def _close_gap(self, gap: str) -> None:
        """White space before a call, or behind one."""
        self._space.clear()
        self._gap = max(self._gap or "", gap if self._answered else "", key=len)

    def _joined(self, token: Token) -> Token:
        """The token, joined to the opening that it begins in a plain position."""
        if token.kind in _LOOSE and self._tool_names:
            lines = self._lines.copy()
            lines.add(token.gap)
            if lines.position(token.text) is Position.PLAIN:
                return self._join_opening(self._at - 1)
        return token

    def _join_opening(self, at: int) -> Token:
        """The token at *at*, joined to the opening of a declared function with text
        within it, or between it and a declared parameter, if it begins one.
        """
        first, end, name = self._tokens[at], at, ""
        for _ in range(_MAX_REPEATS if first.kind in _LOOSE else 0):
            before, end = end, self._behind_text(end)
            token = self._peek(end)
            if name and token.kind == Kind.PARAMETER:
                is_whole = token.name in self._parameters_of(name)
                return self._join(at, end, name) if is_whole else first
            is_opening = token.kind in (*_OPENINGS, Kind.FUNCTION)
            is_long = len(token.gap) > MAX_GAP
            if is_long or not is_opening or token.name not in self._tool_names:
                break
            is_again = name or token.in_tool_call
            if is_again and (name not in ("", token.name) or end > max(before, at + 1)):
                break
            name, end = token.name, end + 1
            if token.kind == Kind.OPENING:
                return self._join(at, end, name)
        return first

    def _join(self, at: int, end: int, name: str) -> Token:
        """Make the tokens an opening, from *at* to that at *end*."""
        first, *more = self._tokens[at:end]
        text = first.text + "".join(token.gap + token.text for token in more)
        self._tokens[at:end] = [Token(Kind.OPENING, first.gap, text, name)]
        return self._tokens[at]

    def _begin_call(self, token: Token) -> State | None:
        """Begin the call that the token opens, if it opens one."""
        if not self._tool_names or token.kind not in _OPENINGS:
            return None
        is_declared = token.name in self._tool_names
        in_reasoning, position = self.in_reasoning, Position.OTHER
        if token.kind == Kind.GARBLED_OPENING:
            position = self._lines.position(token.text)
            if position is not Position.PLAIN:
                return None
        elif not in_reasoning and token.kind == Kind.OPENING:
            position = self._lines.position(token.text if is_declared else "")
        if is_declared and token.kind == Kind.OPENING and position is Position.PLAIN:
            if token.in_tool_call:
                self._close_gap(token.gap)
                return self._open_frame(token)
            position = Position.BARE
        if not is_declared and position is Position.PROSE:
            position = Position.OTHER
        if position is not Position.PROSE and not self._may_be_held(token):
            return None
        start, behind = self._at - 1, self._at
        self._held_calls = _HeldCalls(
            self._lines.copy(), start, behind, start, behind, in_reasoning, position
        )
        self._events = self._held_calls.events
        return self._open_frame(token)

    def _may_be_held(self, token: Token) -> bool:
        """Whether the token opens a call in any other position."""
        if token.kind not in (Kind.OPENING, Kind.GARBLED_OPENING):
            return token.kind == Kind.JSON_OPENING
        is_declared = token.name in self._tool_names
        if token.in_tool_call:
            return is_declared or self._undeclared_calls
        return is_declared and not self.in_reasoning

    def _decide(self, held: _Held | None, *, is_right: bool) -> None:
        """Deliver what the held reading, if any, says if it is right, else drop it."""
        if held is None:
            return
        if held is self._held_calls:
            self._held_calls = None
        self._held_end = None
        calls = self._held_calls
        self._events = self._delivered if calls is None else calls.events
        if is_right:
            self._events += held.events

    def _accept_calls(self, held: _HeldCalls) -> None:
        self._events = self._delivered
        if held.in_reasoning:
            self._end_reasoning()
        self._close_gap(self._tokens[held.start].gap)
        self.outcomes["held"] += [kind for kind, _ in held.events].count(EventType.CALL)
        self._decide(held, is_right=True)
        self._lines.end_call()

    def _is_bare(self, held: _HeldCalls) -> bool:
        """Whether the last held call has neither ``<tool_call>`` nor its end."""
        opening, last = self._tokens[held.opening - 1], self._tokens[held.back - 1]
        is_opened = opening.in_tool_call
        return not is_opened and last.kind not in _TOOL_CALL_ENDS

    def _accept_calls_of_lines(self, at: int) -> None:
        """Accept a call behind prose if its line ends before the token at *at*."""
        held = self._held_calls
        if held is not None and held.position is Position.PROSE:
            self._peek(at)
            lines = held.lines_to(self._tokens, at)
            if lines.ended == self._lines.ended:
                return
            if self._is_bare(held):
                held.position = Position.BARE
            else:
                self._accept_calls(held)
                if self._state is _AFTER_HELD_CALL:
                    self._state = _AFTER_CALL

    def _quote_calls(self, end: int) -> State:
        """The held calls are text, up to the token at *end*; read on there."""
        held = self._held_calls
        assert held is not None
        self.outcomes["text"] += 1
        self._decide(held, is_right=False)
        self._at = end
        first, *rest = self._tokens[held.start : end]
        texts = [first.text, *(token.gap + token.text for token in rest)]
        self._state = _REASONING if held.in_reasoning else _ANSWER
        return self._deliver(first.gap, "".join(texts))

    def _hold_is_over(self, token: Token) -> bool:
        """Whether the fence or reasoning ends in which an unfinished call is held."""
        held = self._held_calls
        if held is None:
            return False
        is_over = held.in_reasoning and token.kind == Kind.THINK_END
        if is_over or not self._lines.fence:
            return is_over
        lines = held.lines_to(self._tokens, self._at - 1)
        return lines.closed > self._lines.closed

    def _after_held_call(self, token: Token) -> State:
        """Behind a held call, which what follows makes a call or text."""
        held = self._held_calls
        assert held is not None
        if held.position is not Position.OTHER and is_beside(token.gap):
            token = self._join_opening(self._at - 1)
        kind = token.kind
        if kind == Kind.END and not token.text:
            self._accept_calls(held)
            return _AFTER_CALL
        if kind in _CALL_ENDS or kind == Kind.OTHER_END:
            held.back = self._at  # given twice
            return self._behind_held_call(held)
        is_next = kind == Kind.OPENING and is_beside(token.gap)
        is_next_declared = is_next and token.name in self._tool_names
        if held.position is Position.PROSE and is_next_declared and self._is_bare(held):
            held.position = Position.BARE
        if held.position is Position.BARE:
            if not is_next_declared:
                return self._quote_calls(held.back)
            if token.in_tool_call:
                self._accept_calls(held)
                return self._after_call(token)
        elif held.in_reasoning:
            if kind == Kind.THINK_END and not held.reasoning_ended:
                held.reasoning_ended = True
                return _AFTER_HELD_CALL
        elif held.position is Position.OTHER:
            lines = held.lines_to(self._tokens, self._at - 1)
            is_declared = token.name in self._tool_names
            if is_declared and lines.position() is Position.PLAIN:
                return self._quote_calls(held.back)
        elif is_next:
            if is_next_declared:
                self._accept_calls(held)
                return self._after_call(token)
        elif held.position is Position.PLAIN:
            held.position = Position.OTHER
        is_on_line = held.position is Position.PROSE
        if held.reasoning_ended or is_on_line or not self._may_be_held(token):
            return self._quote_calls(held.back)
        held.opening = self._at
        return self._open_frame(token)

    def _json_call(self, token: Token) -> State:
        """A call that is written as a JSON object."""
        if (state := self._leave_object(token)) is not None:
            return state
        if token.kind != Kind.TOOL_CALL_END or self._object.in_string:
            self._object.add(token.gap + token.text)
            return _JSON_CALL if self._object.is_alone else self._quote_calls(self._at)
        call = read_json_call(self._held_text())
        if call is None or call[0] not in self._tool_names:
            return self._quote_calls(self._at)
        return self._end_read_call(*call)

    def _garbled_call(self, token: Token) -> State:
        """A call whose tags are garbled."""
        body = self._object
        if (state := self._leave_object(token)) is not None:
            return state
        held = self._held_calls
        assert held is not None
        if token.kind not in _CALL_ENDS or body.in_string:
            if token.kind in (Kind.PARAMETER, Kind.PARAMETER_END):
                self._in_garbled = token.kind == Kind.PARAMETER
            is_first = held.opening == self._at - 1
            text = token.text.removeprefix(">") if is_first else token.text
            if is_first and not text.lstrip().startswith("{"):
                body.is_whole = True  # no object
            if not body.is_whole:
                body.add(text)
            return _GARBLED_CALL
        name = self._tokens[held.opening - 1].name
        is_declared = name in self._tool_names
        declared = self._parameters_of(name) if is_declared else ()
        required = self._required_of(name) if is_declared else ()
        values, is_all = read_garbled_call(self._held_text(), declared)
        self._at = self._sequence_end(self._at - 1)
        if not is_all and all(key in values for key in required):
            # It would run without what could not be read.
            return self._quote_calls(self._at)
        return self._end_read_call(name, values)

    def _leave_object(self, token: Token) -> State | None:
        """Leave a held call that never ends, for it hides nothing."""
        if token.kind == Kind.END:
            return self._end_in_call(token)
        starts_line = split_gap(token.gap)[1] is not None
        is_quoted = self._in_garbled or (self._object.in_string and not starts_line)
        is_opening = token.kind in _OPENINGS and not is_quoted
        if is_opening or self._hold_is_over(token):
            return self._quote_calls(self._at - 1)
        return None

    def _held_text(self) -> str:
        """The text of the held call so far."""
        assert self._held_calls is not None
        tokens = self._tokens[self._held_calls.opening : self._at - 1]
        return "".join(token.gap + token.text for token in tokens)

    def _end_read_call(self, name: str, values: dict[str, str]) -> State:
        """End a call that was read at once."""
        self._emit(EventType.CALL, name)
        for key, value in values.items():
            self._emit(EventType.PARAMETER, key)
            self._emit(EventType.VALUE, value)
            self._emit(EventType.VALUE_END)
        return self._end_call()

    def _open_frame(self, token: Token) -> State:
        if token.kind != Kind.OPENING:
            self._object, self._in_garbled = _Object(), False
            return _JSON_CALL if token.kind == Kind.JSON_OPENING else _GARBLED_CALL
        name = token.name
        is_declared = name in self._tool_names
        self._declared = self._parameters_of(name) if is_declared else ()
        self._required = self._required_of(name) if is_declared else ()
        self._first_missing = 0
        self._in_crlf = None
        self._read_frame(token.text)
        self._function = name if is_declared else ""
        self._given.clear()
        self._quoted.clear()
        self._emit(EventType.CALL, name)
        return _CALL

    def _end_call(self) -> State:
        self._emit(EventType.CALL_END)
        if (held := self._held_calls) is not None:
            held.back = self._at
            return self._behind_held_call(held)
        last = self._tokens[self._at - 1].kind if self._at else None
        self.outcomes["forgiven"] += last != Kind.TOOL_CALL_END
        self._lines.end_call()
        return _AFTER_CALL

    def _behind_held_call(self, held: _HeldCalls) -> State:
        if held.position is Position.BARE and not self._is_bare(held):
            self._accept_calls(held)
            return _AFTER_CALL
        return _AFTER_HELD_CALL

    def _cut_call(self, token: Token) -> State:
        """The output ends within the call, before *token* was decided."""
        if (held := self._held_end) is not None:
            self._decide(held, is_right=False)
        elif self._state in (_VALUE, _VALUE_START):
            gap = self._split_gap(token.gap)[0]
            if self._state is _VALUE_START:
                gap = gap.removeprefix("\r")[1:] if self._in_crlf else gap[1:]
            self._emit(EventType.VALUE, gap)
        self._emit(EventType.CALL_CUT)
        self._at = len(self._tokens)
        return _AFTER_CALL

    def _end_in_call(self, token: Token) -> State:
        """The model ends its output within a call."""
        self._rereads += 1
        end = self._held_end
        if end is not None and not (end.weight is _Weight.PART and self._quotes):
            return self._accept_end()
        if (held := self._held_calls) is None:
            return self._cut_call(token)
        # Text; what follows its opening is read again.
        is_last = self._rereads > _MAX_REREADS
        return self._quote_calls(self._at - 1 if is_last else held.opening)

    def _call(self, token: Token) -> State:
        """Between two tags of the frame."""
        kind = token.kind
        if kind == Kind.PARAMETER:
            return self._begin_parameter(token)
        if kind == Kind.PARAMETER_END:
            return _CALL
        if kind == Kind.END:
            return self._end_in_call(token)
        is_closed = kind in _CLOSING
        self._at = self._sequence_end(self._at - 1) if is_closed else self._at - 1
        return self._end_call()

    def _begin_parameter(self, token: Token) -> State:
        key, value = self._split_key(token)
        self._read_frame(token.gap)
        self._given.add(key)
        self._quotes.clear()
        self._emit(EventType.PARAMETER, key)
        takes_json = bool(self._function) and self._takes_json(self._function, key)
        self._json, self._json_tokens = _Object() if takes_json else None, 0
        if not value:
            return self._begin_value(token)
        # The tag's rest is the value's beginning, so no newline is frame.
        self._emit(EventType.VALUE, value)
        self._indent = None
        return _VALUE

    def _read_frame(self, text: str) -> None:
        """Look how the frame's lines end."""
        if ends := text.count("\n"):
            in_crlf = self._in_crlf is not False and text.count("\r\n") == ends
            self._in_crlf = in_crlf

    def _split_gap(self, gap: str, starts_line: bool = False) -> tuple[str, str | None]:
        """As the function does; the frame's newline may be a CRLF."""
        value, indent = split_gap(gap, starts_line)
        is_crlf = self._in_crlf and indent is not None
        return value.removesuffix("\r") if is_crlf else value, indent

    def _begin_value(self, token: Token) -> State:
        self._opening = token.text
        self._indent = split_gap(token.gap)[1] or ""
        return _VALUE_START

    def _split_key(self, token: Token) -> tuple[str, str]:
        """Split ``KEY=VALUE``, where only KEY is declared, as models mangle it."""
        if token.name not in self._declared:
            head, _, value = token.text[:-1].partition("=")[2].partition("=")
            if (key := trim_name(head)) in self._declared:
                return key, value
        return token.name, ""

    def _value_start(self, token: Token) -> State:
        """The value's beginning: the newline behind ``<parameter=KEY>`` is frame."""
        self._in_crlf = self._in_crlf and not token.gap.startswith("\n")
        newline = "\r\n" if self._in_crlf else "\n"
        starts_line = token.gap.startswith(newline)
        if token.kind == Kind.PARAMETER and token.text == self._opening:
            gap = self._peek(self._at).gap
            if not starts_line or not gap or gap.startswith(newline):
                return self._begin_value(token)  # given twice
        behind_json = self._behind_json()
        if starts_line:
            token = token._replace(gap=token.gap[len(newline) :])
        else:
            self._indent = None
        if behind_json >= self._at:
            return self._literal(token, behind_json)
        return self._value(token, starts_line)

    def _behind_json(self) -> int:
        """Index behind the JSON that begins with the token at hand; else the token's.

        A tag within one of its strings is text.
        """
        at, json = self._at - 1, self._json
        is_json = json is not None and self._tokens[at].text.startswith(("[", "{"))
        if not is_json or self._in_held_call():
            return at
        assert json is not None
        while not json.is_whole and json.length <= _MAX_JSON:
            token = self._peek(at + self._json_tokens)
            if token.kind == Kind.END or (
                token.kind != Kind.TEXT and not json.in_string
            ):
                return at
            json.add(token.gap + token.text)
            self._json_tokens += 1
        end = at + self._json_tokens
        text = "".join(token.gap + token.text for token in self._tokens[at:end])
        is_json = json.is_whole and json.is_alone and _read_json(text) is not None
        return end if is_json else at

    def _value(self, token: Token, starts_line: bool = False) -> State:
        """Text of the value, or a tag that may end it."""
        kind = token.kind
        if kind == Kind.TEXT:
            self._emit(EventType.VALUE, token.gap + token.text)
            return _VALUE
        if kind == Kind.END:
            return self._end_in_call(token)
        if self._held_calls is not None and self._hold_is_over(token):
            return self._quote_calls(self._at - 1)
        if kind == Kind.TOOL_CALL_END and token.text.count("<") > 1:
            return self._split_end(token)
        self._tag_gap, self._tag_indent = self._split_gap(token.gap, starts_line)
        if self._held_end is not None and not self._quotes:
            token = self._join_opening(self._at - 1)
            kind = token.kind
        if kind == Kind.PARAMETER_END:
            return self._parameter_end(token)
        if kind in _CLOSING:
            return self._end_tag(token)
        if kind in (Kind.PARAMETER, Kind.OTHER_PARAMETER):
            return self._parameter_in_value(token)
        if kind == Kind.OPENING:
            return self._opening_in_value(token)
        return self._literal(token, self._at)

    def _split_end(self, token: Token) -> State:
        """Another format's closing tag that no tag of this frame precedes is text."""
        tag, end, rest = token.text.partition(">")
        self._at -= 1
        self._tokens[self._at : self._at + 1] = (
            Token(Kind.TEXT, self._tokens[self._at].gap, tag + end),
            Token(token.kind, rest.removesuffix(TOOL_CALL_END), TOOL_CALL_END),
        )
        return self._state

    def _literal(self, token: Token, end: int) -> State:
        """The tag, and those behind it before *end*, are the value's."""
        texts = [more.gap + more.text for more in self._tokens[self._at : end]]
        self._emit(EventType.VALUE, "".join([token.gap, token.text, *texts]))
        self._at = end
        return _VALUE

    def _end_value(self, end: int, *, ends_call: bool = False) -> State:
        """End the value before the tag; its frame goes on at the token at *end*."""
        self._decide(self._held_end, is_right=True)
        self._emit(EventType.VALUE, self._tag_gap)
        return self._leave_value(end, ends_call)

    def _leave_value(self, end: int, ends_call: bool) -> State:
        self._emit(EventType.VALUE_END)
        self._at = end
        return self._end_call() if ends_call else _CALL

    def _hold_end(self, token: Token, end: int, weight: _Weight) -> State:
        """Hold what may end the value, from the tag to the token at *end*."""
        self._decide(self._held_end, is_right=True)
        gap = self._tag_gap
        self._emit(EventType.VALUE, gap)
        self._held_end = _HeldEnd(self._lines, end, end, weight)
        self._events = self._held_end.events
        self._reach(self._held_end, end)
        return self._literal(token._replace(gap=token.gap[len(gap) :]), end)

    def _reach(self, held: _HeldEnd, end: int) -> None:
        """What is held reaches to the token at *end*, behind tags given twice."""
        held.lines = self._lines.copy()
        held.lines.end_call()
        held.lines.add(self._peek(end).gap)
        held.back = held.seen = end

    def _accept_end(self, *, ends_call: bool = True) -> State:
        """What is held ends the value; read on behind it."""
        held = self._held_end
        assert held is not None
        self._decide(held, is_right=False)
        return self._leave_value(held.back, ends_call)

    def _in_held_call(self) -> bool:
        """Whether the call ends at its first closing sequence, as held ones do."""
        held = self._held_calls
        return held is not None and held.position is not Position.BARE

    def _mirrors(self, indent: str | None) -> bool:
        """Whether a closing tag is spelled as the parameter's opening tag."""
        return self._indent is None or indent == self._indent

    def _peek(self, at: int) -> Token:
        """The token at *at*; raises NeedMore if it is not there yet."""
        if at >= len(self._tokens):
            raise NeedMore
        return self._tokens[at]

    def _sequence_end(self, at: int) -> int:
        """Index behind a closing tag and, at ``</function>``, a ``</tool_call>``."""
        end = at + 1
        if self._tokens[at].kind != Kind.FUNCTION_END:
            return end
        if self._peek(end).kind in _TOOL_CALL_ENDS:
            return end + 1
        behind = self._behind_text(end, in_prose=at >= self._at)
        tag = self._peek(behind)
        if behind == end or tag.kind != Kind.TOOL_CALL_END:
            return end
        texts = [token.gap + token.text for token in self._tokens[end:behind]]
        is_frame = split_gap(tag.gap)[1] is not None or "\n" not in "".join(texts)
        if not is_frame:
            token = self._peek(behind + 1)
            is_frame = token.kind not in _TEXTS or "\n" in token.gap
        return behind + 1 if is_frame else end

    def _following(self, at: int) -> tuple[str, int]:
        """What follows a closing tag, at the token *at*.

        Returns:
            ``FUNCTION_END`` for the rest of a closing sequence, ``OPENING`` only for
            a call in a plain position; the index behind closing tags.
        """
        token = self._peek(at)
        if is_beside(token.gap):
            token = self._join_opening(at)
        kind, gap = token.kind, token.gap
        is_call = is_beside(gap) and token.name in self._tool_names
        if len(gap) > MAX_GAP or (kind == Kind.OPENING and not is_call):
            kind = Kind.TEXT
        elif kind in _CALL_ENDS:
            return Kind.FUNCTION_END, self._sequence_end(at)
        return kind, at + (kind == Kind.PARAMETER_END)

    def _behind_text(self, at: int, *, in_prose: bool = True) -> int:
        """Index behind the text at *at*, which may stand between two tags of a frame.

        Its tokens become one.  It is *at* if the text is too long, or if it begins
        with a word and must not stand *in_prose*.
        """
        end, length = at, 0
        texts = (Kind.TEXT,) if self.in_reasoning else _TEXTS
        while (token := self._peek(end)).kind in texts:
            length += len(token.gap) + len(token.text)
            if end > at and token.kind == self._tokens[end - 1].kind == Kind.TEXT:
                first = self._tokens[end - 1]
                token = first._replace(text=first.text + token.gap + token.text)
                self._tokens[end - 1 : end + 1] = [token]
                end -= 1
            is_prose = end == at and _WORD.match(token.gap + token.text)
            is_escape = end == at and token.text.startswith("\\")
            if length > _MAX_TEXT or is_escape or (is_prose and not in_prose):
                return at
            end += 1
        return end

    def _behind_text_of_frame(self, at: int, mirrors: bool) -> tuple[str, int, int]:
        """What follows the text behind a ``</parameter>``, if that is the frame's.

        Returns:
            As ``_following`` has it; the tag's index; the index behind closing tags.
        """
        may_be_due = len(self._given) < len(self._declared)
        tag = self._behind_text(at, in_prose=mirrors or may_be_due)
        following, end = self._following(tag)
        starts_line = split_gap(self._tokens[tag].gap)[1] is not None
        first = self._tokens[at]
        is_prose = not mirrors and _WORD.match(first.gap + first.text) is not None
        is_frame = False
        if tag == at:
            pass
        elif following == Kind.PARAMETER:
            is_frame = self._is_due(self._key_at(tag)) and (starts_line or not is_prose)
        elif following == Kind.FUNCTION_END and not is_prose:
            behind = self._following(end)[0]
            is_call = behind == Kind.OPENING and not self._waits()
            is_whole = self._tokens[end - 1].kind in _TOOL_CALL_ENDS
            is_whole = is_whole or (mirrors and starts_line)
            is_frame = is_whole or is_call or behind == Kind.END
        return (following, tag, end) if is_frame else (Kind.TEXT, at, at)

    def _key_at(self, at: int) -> str:
        return self._split_key(self._tokens[at])[0]

    def _is_due(self, key: str) -> bool:
        """Whether the call's tool declares the key, and it was not given."""
        return key in self._declared and key not in self._given

    def _ends_call(self, following: str) -> bool:
        """Whether what follows forgives a missing ``</function>``."""
        held = self._held_calls
        is_plain = held is None or held.position in (Position.PROSE, Position.BARE)
        return following == Kind.OPENING or (following == Kind.END and is_plain)

    def _waits(self) -> bool:
        """Whether a required key may still come, which a call does not decide."""
        if self._rereads > _MAX_REREADS:
            return False
        for key in itertools.islice(self._required, self._first_missing, None):
            if key not in self._given:
                return True
            self._first_missing += 1
        return False

    def _takes(self, quote: _Quote | None, key: str) -> bool:
        """Whether the key may be of the call that a quoted block holds."""
        if quote is None or (name := quote.name) is None:
            return False
        return name not in self._tool_names or key in self._parameters_of(name)

    def _parameter_end(self, token: Token) -> State:
        """Decide on a ``</parameter>``: the first rule that applies."""
        closer = self._closer(token)
        return next(act for applies, act in _RULES if applies(closer))(self, closer)

    def _closer(self, token: Token) -> _Closer:
        """The facts of a ``</parameter>``, which the rules ask for."""
        if self._tag_indent is not None:
            while self._quotes and self._quotes[-1].in_line:
                self._quotes.pop()
        quote = self._quotes[-1] if self._quotes else None
        claims = quote is not None and quote.in_parameter
        mirrors, yields = self._mirrors(self._tag_indent), False
        behind = self._at
        following, end = self._following(behind)
        for _ in range(0 if claims else _MAX_REPEATS):
            if following != Kind.PARAMETER_END:
                break
            gap = self._tokens[behind].gap
            is_spelled_so = self._mirrors(split_gap(gap)[1])
            if yields := self._state is _VALUE_START or (not mirrors and is_spelled_so):
                break
            behind = end
            following, end = self._following(behind)
        if following in _TEXTS and quote is None and not self._lines.fence:
            following, behind, end = self._behind_text_of_frame(behind, mirrors)
        is_last = False
        if following == Kind.FUNCTION_END:
            self._accept_calls_of_lines(end)
            is_last = self._following(end)[0] == Kind.END
        key = self._key_at(behind) if following == Kind.PARAMETER else None
        return _Closer(
            token=token,
            mirrors=mirrors,
            yields=yields,
            behind=behind,
            following=following,
            end=end,
            is_last=is_last,
            has_key=key is not None,
            is_due=key is not None and self._is_due(key),
            quote=quote,
            takes=key is not None and self._takes(quote, key),
            held=self._held_end,
            in_held_call=self._in_held_call(),
            begins_line=self._indent is not None,
            is_forgiven=self._ends_call(following),
        )

    def _end_quoted(self, closer: _Closer) -> State:
        """The tag is a quoted parameter's own."""
        assert closer.quote is not None
        closer.quote.in_parameter = closer.quote.in_line = False
        if closer.quote.name is None:
            self._quotes.pop()
        return self._literal(closer.token, closer.behind)

    def _end_sequence(self, closer: _Closer) -> State:
        """The tag begins a closing sequence."""
        weight = _Weight.MIRRORED if closer.mirrors else _Weight.SPELLED
        if closer.claims and not closer.is_last:
            weight = _Weight.CLAIMED
        return self._closing_sequence(closer.token, closer.end, weight)

    def _closing_sequence(self, token: Token, end: int, weight: _Weight) -> State:
        """Decide on a closing sequence that no quoted block claims."""
        following = self._following(end)[0]
        is_call = following == Kind.OPENING and not self._waits()
        is_claimed = weight is _Weight.CLAIMED
        decides = (is_call and not is_claimed) or following == Kind.END
        self._quotes.clear()
        held = self._held_end
        if self._in_held_call() or (held is None and decides):
            return self._end_value(end, ends_call=True)
        if held is None:
            self._hold_end(token, end, weight)
        elif held.back == self._at - 1 and held.weight >= weight:
            self._reach(held, end)
            self._literal(token, end)
        elif weight is _Weight.MIRRORED or held.weight < _Weight.MIRRORED:
            self._hold_end(token, end, weight)
        else:
            self._literal(token, end)
        return self._accept_end() if decides else _VALUE

    def _end_tag(self, token: Token) -> State:
        """Decide on a ``</function>`` or ``</tool_call>`` without ``</parameter>``."""
        behind = self._at
        end = self._sequence_end(behind - 1)
        self._accept_calls_of_lines(end)
        is_function = token.kind == Kind.FUNCTION_END
        # An empty value has a line of its own: one that begins with the tag holds it.
        starts = self._state is _VALUE_START and self._indent is not None
        if starts and "\n" not in token.gap and self._following(end)[0] != Kind.END:
            return self._literal(token, behind)
        quote = self._quotes[-1] if self._quotes else None
        held = self._held_end
        if held is not None and held.back == behind - 1 and quote is None:
            self._reach(held, end)
            return self._literal(token, end)
        if quote is None and held is None:
            following, more = self._following(end)
            if following == Kind.FUNCTION_END:
                following, end = self._following(more)[0], more  # given twice
            if self._ends_call(following) or (is_function and following == Kind.END):
                return self._end_value(end, ends_call=True)
            is_whole = is_function and self._tokens[end - 1].kind == Kind.TOOL_CALL_END
            mirrors = self._indent is not None and self._indent == self._tag_indent
            if is_whole and mirrors and not self._in_held_call():
                return self._hold_end(token, end, _Weight.PART)
        elif quote is not None and quote.name is not None:
            if not quote.in_tool_call:
                end = behind
            starts_line = self._tag_indent is not None
            is_sure = is_function and (end > behind or starts_line)
            is_own = is_function or quote.in_tool_call
            if is_own and (is_sure or not quote.in_parameter):
                self._quotes.pop()
        return self._literal(token, end)

    def _opening_in_value(self, token: Token) -> State:
        """Decide on the opening of a call inside the value."""
        held = self._held_end
        is_call = token.name in self._tool_names and not self._quotes
        is_weak = held is not None and held.weight < _Weight.SPELLED
        if held is not None and is_call and not is_weak:
            text = self._text_of(held.back, self._at)
            if self._waits():
                self._quoted.add(text)
            elif text and text in self._quoted:
                self._decide(held, is_right=True)
            else:
                lines = held.lines_to(self._tokens, self._at - 1)
                if lines.position(token.text) is Position.PLAIN:
                    return self._accept_end()
        in_tool_call = token.in_tool_call
        self._quotes.append(_Quote(token.name, in_tool_call))
        return self._literal(token, self._at)

    def _text_of(self, at: int, end: int) -> str:
        """The tokens from *at* to *end* as one text; nothing if that is too long."""
        texts, length = [], 0
        for token in itertools.islice(self._tokens, at, end):
            texts.append(token.gap + token.text)
            length += len(texts[-1])
            if length > _MAX_TEXT:
                return ""
        return "".join(texts)

    def _parameter_in_value(self, token: Token) -> State:
        """Decide on a ``<parameter=KEY>`` inside the value, or what looks like it."""
        quote = self._quotes[-1] if self._quotes else None
        starts_line = self._tag_indent is not None
        if quote is not None and quote.name is not None:
            gap = self._peek(self._at).gap
            quote.in_parameter = True
            quote.in_line = not starts_line and not gap.startswith("\n")
        elif starts_line:
            is_own = token.kind == Kind.PARAMETER
            if is_own and self._is_due(self._key_at(self._at - 1)):
                if (held := self._held_end) is not None:
                    texts = self._tokens[held.back : self._at - 1]
                    is_text = all(text.kind in _TEXTS for text in texts)
                    length = sum(len(text.gap) + len(text.text) for text in texts)
                    if is_text and length <= _MAX_TEXT:
                        self._reach(held, self._at - 1)
                        return self._accept_end(ends_call=False)
                return self._end_value(self._at - 1)
            if quote is None:
                self._quotes.append(_Quote(None, in_parameter=True))
        return self._literal(token, self._at)


_THINK_OPENING: State = QwenToolReader._think_opening
_REASONING: State = QwenToolReader._reasoning
_ANSWER: State = QwenToolReader._answer
_AFTER_CALL: State = QwenToolReader._after_call
_AFTER_HELD_CALL: State = QwenToolReader._after_held_call
_CALL: State = QwenToolReader._call
_JSON_CALL: State = QwenToolReader._json_call
_GARBLED_CALL: State = QwenToolReader._garbled_call
_VALUE_START: State = QwenToolReader._value_start
_VALUE: State = QwenToolReader._value
_CALL_STATES = (_CALL, _VALUE_START, _VALUE)

# Of a value's end, in the order of docs/format.md; the first that applies decides.
_RULES: tuple[
    tuple[Callable[[_Closer], bool], Callable[[QwenToolReader, _Closer], State]], ...
] = (
    # 1. Given twice is given once.
    (lambda c: c.yields, lambda r, c: r._literal(c.token, c.behind)),
    # 2. The next parameter is due.
    (
        lambda c: c.is_due and not (c.claims and c.takes),
        lambda r, c: r._end_value(c.behind),
    ),
    # 3. A closing sequence.
    (lambda c: c.is_sequence, QwenToolReader._end_sequence),
    # 4. A quoted block claims its own tags.
    (lambda c: c.claims, QwenToolReader._end_quoted),
    # 5. The closer mirrors its opener.
    (lambda c: c.closes_parameter, lambda r, c: r._end_value(c.behind)),
    # 6. Forgotten tags.
    (
        lambda c: c.is_bare and c.is_forgiven,
        lambda r, c: r._end_value(c.behind, ends_call=True),
    ),
    (
        lambda c: c.is_bare and c.is_free and c.mirrors and c.begins_line,
        lambda r, c: r._hold_end(c.token, c.behind, _Weight.PART),
    ),
    # Else it is text.
    (lambda c: True, lambda r, c: r._literal(c.token, c.behind)),
)
