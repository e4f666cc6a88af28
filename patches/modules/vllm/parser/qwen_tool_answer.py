# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The text around Qwen3-Coder tool calls: where it stands, and its events.

:class:`Lines` follows the answer's Markdown, which says where a call begins.
:class:`Output` delivers text, and keeps the events of what is held.
"""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass, field

import regex as re

from .qwen_tool_bounds import MAX_LINE
from .qwen_tool_tokens import Tokens


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


class State:
    """What is read next: where in the output the next token stands."""

    THINK_OPENING = "THINK_OPENING"  # at the beginning of the reasoning
    REASONING = "REASONING"
    ANSWER = "ANSWER"
    AFTER_CALL = "AFTER_CALL"
    AFTER_HELD_CALL = "AFTER_HELD_CALL"
    JSON_CALL = "JSON_CALL"
    GARBLED_CALL = "GARBLED_CALL"
    CALL = "CALL"  # between two tags of its frame
    VALUE_START = "VALUE_START"
    VALUE = "VALUE"


class Position(enum.Enum):
    """Where in the answer's Markdown a call begins."""

    PLAIN = enum.auto()  # on a line of its own, or behind another call
    PROSE = enum.auto()  # behind the prose of its line
    BARE = enum.auto()  # plain, but without <tool_call>
    OTHER = enum.auto()  # in a fence, or quoted, listed or indented


# Directly before a call, these quote it.
_QUOTING = "`'\"([{<«»“”„‘’‹›「『（【*_|\\"
# What opens a code fence, in a quote or a list as well.
_FENCE = re.compile(r"((?:[\s>]|(?:[-*+]|\d{1,9}[.)])(?=\s))*)(`{3,}|~{3,})(.*)")

_LIST_MARK = re.compile(r"\s*+(?:>|[-*+]\s)")


def _shorten(line: str) -> str:
    """The two ends of a long line, and one character of each kind between them."""
    if len(line) <= MAX_LINE:
        return line
    middle = line[MAX_LINE - 1 : -1]
    kept = "".join(mark for mark in " ~`" if mark in middle)
    other = middle.strip("~`").strip()
    kept += ("a" if any(map(str.isalpha, other)) else ".") if other else ""
    return line[: MAX_LINE - 1] + kept + line[-1]


class Lines:
    """The line and the code fence in which an answer's text ends.

    Attributes:
        ended: How many lines ended.
        fence: What opened the code fence that is open.
        closed: How many code fences were closed.

    """

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]  # that were not read yet
        self._line = ""  # the last line; of a long one, both ends
        self._behind_call = True  # or at the beginning
        self._quoted = False  # the fence was opened in a block quote
        self.ended = 0
        self._wordless = True  # the lines that ended behind the last call
        self.fence = ""
        self.closed = 0

    def in_frame(self) -> bool:
        """Whether only white space and marks, but no list's or quote's, stand behind
        the call before, or at the beginning of the answer.
        """
        line = self.read()._line
        is_listed = _LIST_MARK.match(line) is not None
        is_wordless = self._wordless and not any(map(str.isalnum, line))
        return is_wordless and not is_listed and not self.fence

    @property
    def begins(self) -> bool:
        """Whether a line begins, in a code fence or not."""
        return not self.read()._line

    def ends_fence(self, text: str) -> bool:
        """Whether a text may end the code fence that is open."""
        return bool(self.fence) and self.fence in text

    def add(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) > 256:
            self.read()

    def copy(self, more: str = "") -> Lines:
        """The lines with *more* text behind them."""
        lines = copy.copy(self.read())
        lines._pieces = [more]  # else both would collect into one list
        return lines

    def end_call(self) -> None:
        """A call ended: what follows is on a line of its own."""
        self._end_line(self.read()._line)
        self._line, self._behind_call, self._wordless = "", True, True

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

    def read(self) -> Lines:
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
        self._wordless = self._wordless and not any(map(str.isalnum, line))
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


@dataclass(slots=True)
class Held:
    """A reading that waits to be decided.

    Attributes:
        lines: The answer's lines in the other reading, up to
        seen: the token of this index.
        back: Index of the token at which the other reading goes on.
        events: What this reading says.

    """

    lines: Lines
    seen: int
    back: int
    events: list[Event] = field(default_factory=list, kw_only=True)

    def lines_to(self, tokens: Tokens, at: int) -> Lines:
        """The lines up to the token at *at*."""
        for seen in range(self.seen, at):
            self.lines.add(tokens[seen].text + tokens[seen + 1].gap)
        self.seen = max(self.seen, at)
        return self.lines.read()


@dataclass(slots=True)
class HeldCalls(Held):
    """Calls that count only if nothing but calls follows; else text.

    Attributes:
        start: Index of their first token.
        opening: Index of the token behind the last call's opening.
        in_reasoning: Whether they begin in the reasoning,
        reasoning_ended: and it ended behind them.
        in_frame: Whether they follow another call; see :meth:`Lines.in_frame`.
        position: Where they begin; behind prose only their line must end, and bare
            ones are read as if they counted.

    """

    start: int
    opening: int
    in_reasoning: bool
    position: Position
    in_frame: bool
    reasoning_ended: bool = False


class Weight(enum.IntEnum):
    """What speaks for a closing sequence."""

    PART = enum.auto()  # a tag of it is missing
    CLAIMED = enum.auto()  # a quoted parameter claims it
    SPELLED = enum.auto()  # it is whole
    MIRRORED = enum.auto()  # and spelled as the parameter's opening tag


@dataclass(slots=True)
class HeldEnd(Held):
    """A closing sequence, or a part of one, that is literal; else a value's end."""

    weight: Weight


class Output:
    """Events of the output, and the readings that wait to be decided.

    Calls can be held, and what may end a value.  Reading goes on in one of the two
    readings, and its events wait.  When the other one is right, they are dropped.

    Attributes:
        calls: The calls that are held.
        end: What is held to be a value's end.
        lines: Of the answer's text, or the reasoning's.
        answered: Whether the answer has visible text.
        spaces: White space around think tags.
        outcomes: Calls that were held and count, whose end was forgiven, or that
            were held and are text.

    """

    def __init__(self, tokens: Tokens, prefix: str, keeps_space: bool) -> None:
        self._tokens = tokens
        self._keeps_space = keeps_space
        self._delivered: list[Event] = []  # of this piece of the output
        self._events = self._delivered
        self._gap: str | None = None  # longest around the calls since the text
        self.calls: HeldCalls | None = None
        self.end: HeldEnd | None = None
        self.lines = Lines(prefix)
        self.answered = bool(prefix.strip())
        self.spaces: list[str] = []
        self.outcomes = {"held": 0, "forgiven": 0, "text": 0}

    def emit(self, event: str, text: str = "") -> None:
        if text or event != EventType.VALUE:
            self._events.append((event, text))

    def take(self) -> list[Event]:
        """The events that are decided."""
        events = self._delivered.copy()
        self._delivered.clear()
        return events

    def hold_calls(self, held: HeldCalls) -> None:
        """Hold the events that follow, of calls."""
        self.calls, self._events = held, held.events

    def hold_end(self, held: HeldEnd) -> None:
        """Hold the events that follow, of a value that goes on."""
        self.end, self._events = held, held.events

    def decide(self, held: HeldCalls | HeldEnd | None, *, is_right: bool) -> None:
        """Deliver what the held reading, if any, says if it is right, else drop it."""
        if held is None:
            return
        if held is self.calls:
            self.calls = None
        self.end = None
        self._events = self._delivered if self.calls is None else self.calls.events
        if is_right:
            self._events += held.events

    def deliver(self, gap: str, text: str) -> str:
        """Deliver text of answer or reasoning behind white space.

        White space before a call belongs to the call's frame; the longest around
        calls that stand between text separates it.
        """
        space = "".join([*self.spaces, gap])
        self.spaces.clear()
        self.lines.add(text)
        event = state = EventType.REASONING
        if not self._tokens.in_reasoning:
            event, state = EventType.CONTENT, State.ANSWER
            if self._gap is not None:
                self.close_gap(gap)
                space, self._gap = self._gap, None
            self.answered = True
        if space or text:
            self.emit(event, space + text)
        return state

    def close_gap(self, gap: str) -> None:
        """White space before a call, or behind one."""
        self.spaces.clear()
        if gap and self._keeps_space and self.answered and self._gap is None:
            self.emit(EventType.CONTENT, gap)
            gap = ""
        self._gap = max(self._gap or "", gap if self.answered else "", key=len)

    def end_reasoning(self) -> str:
        self.emit(EventType.REASONING_END)
        self._tokens.in_reasoning = False
        self.lines = Lines()
        return State.ANSWER
