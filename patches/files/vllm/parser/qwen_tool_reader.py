# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Incremental reader of the Qwen3-Coder tool-call format.

The chat template renders a call without escaping its values::

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

so the same characters may be a *structural* tag of a call's frame or
*literal* text of a value, an answer or a reasoning that talks about tool
calls.  Evidence decides: the position of a call, the spelling of a closing
tag, the tool's schema, the blocks that a value quotes, and what follows.  What
the evidence leaves open is held, at most until the model's own end of the
output.  The events of an output, joined, are the same for every cut.

The reader works on text alone.  Token ids prove nothing here, because a model
writing *about* tool calls emits the very same special tokens.

Each state of :class:`QwenToolReader` is a method that reads one thing, a run
of text or a tag, and returns the next state, or ``None`` if it needs more text::

    think_opening -> reasoning -> answer | call
    answer -> call | json_call | reasoning (before visible text)
    call -> value_opening -> value_start -> value -> call
    call, value, json_call -> after_call | after_held_call
    after_call -> answer | call | json_call
    after_held_call -> call | json_call | answer, reasoning (the calls were text)

Two things can be held.  :class:`_HeldCalls`: calls in a position where only
their being the last thing of the output makes them calls.  :class:`_HeldEnd`: a
closing sequence of a value that may be literal.  Either one keeps its text, and
reading goes on behind it; when it is decided the other way, the reader goes
back to where the readings part.
"""

from __future__ import annotations

import copy
import enum
import json
from collections.abc import Callable, Collection

import regex as re


class EventType(enum.Enum):
    REASONING = enum.auto()  # text of the reasoning
    REASONING_END = enum.auto()
    CONTENT = enum.auto()  # text of the answer
    CALL = enum.auto()  # a call begins; its function's name
    PARAMETER = enum.auto()  # a parameter begins; its key
    VALUE = enum.auto()  # text of the parameter's value
    VALUE_END = enum.auto()
    CALL_END = enum.auto()
    CALL_CUT = enum.auto()  # the output ends within the call


Event = tuple[EventType, str]
State = Callable[["QwenToolReader"], "State | None"]

THINK_START = "<think>"
THINK_END = "</think>"
TOOL_CALL_START = "<tool_call>"
TOOL_CALL_END = "</tool_call>"
FUNCTION_PREFIX = "<function="
FUNCTION_END = "</function>"
PARAMETER_PREFIX = "<parameter="
PARAMETER_END = "</parameter>"
CLOSING_TAGS = (PARAMETER_END, FUNCTION_END, TOOL_CALL_END)

# Longest name in a tag, and longest white space between two tags of one frame.
# They bound what is looked at twice.
MAX_NAME = 128
MAX_GAP = 256
MAX_REPEATS = 4  # of a closing tag that is given more than once

# How the tags begin that can mean something in text and in a value, and what
# such a beginning may look like where the text ends.
_TEXT_TAGS = ("</th", "</to", "<th", "<to", "<fu")
_VALUE_TAGS = ("</pa", "</fu", "</to", "<pa", "<fu", "<to")
_THINK_VALUE_TAGS = (*_VALUE_TAGS, "</th")  # within a call in the reasoning
_CLOSING_TAGS = ("</th", "</to", "</pa", "</fu")
_CUT_TAGS = frozenset(
    tag[:end]
    for tag in (*_TEXT_TAGS, *_VALUE_TAGS, *_CLOSING_TAGS)
    for end in range(1, len(tag))
)

# As str.isspace() has it: unlike Python's own, this \s has no U+001C to U+001F.
_GAP = re.compile(rf"[\s\x1c-\x1f]{{0,{MAX_GAP + 1}}}")
# What opens a code fence, in a quote or a list as well.
_FENCE = re.compile(r"((?:[\s>]|(?:[-*+]|\d{1,9}[.)])(?=\s))*)(`{3,}|~{3,})(.*)")
_QUOTE = re.compile(r"[\s>]*")
_MAX_LINE = 1024  # of a line that is kept
# Directly before a call, these quote it.
_QUOTING = "`'\"([{<«»“”„‘’‹›「『（【*_|\\"
# How often text behind an unfinished call is read again.
_MAX_REREADS = 8


class NeedMore(Exception):
    """The text ends within what could still match."""


class Cursor:
    """A position in the text that was not read yet.

    Every matching method moves the position behind the match, or leaves it
    where it is.

    Attributes:
        final: Whether nothing follows the text.

    """

    __slots__ = ("at", "final", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.final = False

    def literal(self, tag: str) -> bool:
        """Match *tag*.

        Raises:
            NeedMore: The text ends within it.

        """
        text, at = self.text, self.at
        if text.startswith(tag, at):
            self.at = at + len(tag)
            return True
        if len(text) - at < len(tag) and tag.startswith(text[at:]):
            raise NeedMore
        return False

    def gap(self) -> bool:
        """Skip the white space between two tags of one frame.

        Returns:
            Whether it is short enough for that.

        Raises:
            NeedMore: The text ends within it.

        """
        text, at = self.text, self.at
        # As the chat template has it, mostly.
        end = at + 1 if text.startswith("\n", at) else at
        if text[end : end + 1].isspace():
            end = _GAP.match(text, end).end()
            if end - at > MAX_GAP:
                return False
        if end == len(text):
            raise NeedMore
        self.at = end
        return True

    def skip_space(self) -> bool:
        """Skip white space, however long.

        Returns:
            Whether there is any.

        """
        text, start = self.text, self.at
        at = start
        while at < len(text) and text[at].isspace():
            at += 1
        self.at = at
        return at > start

    def named_tag(self, prefix: str) -> str | None:
        """Match ``<prefix=NAME>`` and return the name as it is written.

        Raises:
            NeedMore: The text ends within it.

        """
        start = self.at
        if not self.literal(prefix):
            return None
        text, at = self.text, self.at
        end = text.find(">", at, at + MAX_NAME + 1)
        name = text[at : end if end >= 0 else at + MAX_NAME + 1]
        if "<" not in name and "\n" not in name:
            if end >= 0 and trim_name(name):
                self.at = end + 1
                return name
            if end < 0 and len(name) <= MAX_NAME:
                self.at = start
                raise NeedMore
        self.at = start
        return None

    def skip(self, match: Callable[[], bool]) -> bool:
        """Whether *match* succeeds here; then move behind it.

        What the output's end cuts does not match.

        Raises:
            NeedMore: The text ends within it, and the output may go on.

        """
        start = self.at
        if not self.final:
            matched = match()
        else:
            try:
                matched = match()
            except NeedMore:
                matched = False
        if not matched:
            self.at = start
        return matched


def find_text_tag(text: str, start: int) -> int:
    """Position of the first ``<`` that may begin a tag, or the end."""
    at = text.find("<", start)
    while at >= 0 and not text.startswith(_TEXT_TAGS, at):
        if len(text) - at < 4 and text[at:] in _CUT_TAGS:
            break
        at = text.find("<", at + 1)
    return at if at >= 0 else len(text)


def trim_name(name: str) -> str:
    """The name in a tag, without the white space and quotes around it."""
    return name.strip(" \t\r\"'")


def read_json_call(text: str) -> tuple[str, dict[str, str]] | None:
    """Name and values, as text, of a call that is written as a JSON object."""
    try:
        call = json.loads(text)
        if not isinstance(call, dict) or call.keys() - {"name", "arguments"}:
            return None
        name, arguments = call.get("name"), call.get("arguments", {})
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if isinstance(name, str) and isinstance(arguments, dict):
            return name, {
                key: value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False)
                for key, value in arguments.items()
            }
    except (ValueError, RecursionError):
        pass
    return None


class Position(enum.Enum):
    """Where in the answer's Markdown a call begins."""

    PLAIN = enum.auto()  # on a line of its own, or behind another call
    PROSE = enum.auto()  # behind the prose of its line
    OTHER = enum.auto()  # in a fence, or quoted, listed or indented


class _Lines:
    """The line and the code fence in which an answer's text ends."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # that were not read yet
        self._line = ""  # the last line, as far as it is kept
        self._more = ""  # the last character behind that
        self._more_ticks = False  # or backticks there
        self._behind_call = True  # or at the beginning
        self._quoted = False  # the fence was opened in a block quote
        self.fence = ""  # what opened the code fence that is open
        self.closed = 0  # code fences

    def add(self, text: str) -> None:
        self._pieces.append(text)
        if len(self._pieces) > MAX_GAP:
            self._read()

    def copy(self) -> _Lines:
        self._read()
        lines = copy.copy(self)
        lines._pieces = []  # else both would collect into one list
        return lines

    def end_call(self) -> None:
        """A call ended: what follows is on a line of its own."""
        self._pieces.clear()
        self._new_line()
        self._behind_call = True

    def in_fence(self) -> bool:
        self._read()
        return bool(self.fence)

    def position(self) -> Position:
        """What a call that begins here is in."""
        self._read()
        line = self._line
        if self.fence:
            return Position.OTHER
        if not line or (self._behind_call and line.isspace()):
            return Position.PLAIN
        if (self._more or line[-1]) in _QUOTING:
            return Position.OTHER
        has_word = any(character.isalpha() for character in line)
        return Position.PROSE if has_word else Position.OTHER

    def _read(self) -> None:
        """Read the pieces that were collected."""
        first, *lines = "".join(self._pieces).split("\n")
        self._pieces.clear()
        self._go_on(first)
        for line in lines:
            self._end_line()
            self._go_on(line)

    def _go_on(self, text: str) -> None:
        """Read more of the last line."""
        room = _MAX_LINE - len(self._line)
        if len(text) > room:
            more, text = text[room:], text[:room]
            self._more = more[-1]
            self._more_ticks = self._more_ticks or "`" in more
        self._line += text

    def _new_line(self) -> None:
        self._line = self._more = ""
        self._more_ticks = self._behind_call = False

    def _end_line(self) -> None:
        line, more, more_ticks = self._line, self._more, self._more_ticks
        self._new_line()
        if "```" not in line and "~~~" not in line:
            return
        if self.fence:
            start = _QUOTE.match(line).end() if self._quoted else 0
            marks = line[start:].strip()
            is_closing = marks.startswith(self.fence) and not marks.strip(marks[0])
            if is_closing and not more:
                self.fence = ""
                self.closed += 1
        elif (match := _FENCE.match(line)) is not None:
            before, marks, rest = match.groups()
            if marks[0] == "~" or not (more_ticks or "`" in rest):
                self.fence, self._quoted = marks, ">" in before


class _Quote:
    """A block, or a parameter alone, that a value quotes.

    Attributes:
        name: Its function; None for a parameter alone.
        in_tool_call: Whether ``<tool_call>`` began it.
        in_parameter: Whether one of its own parameters is open.

    """

    __slots__ = ("in_parameter", "in_tool_call", "name")

    def __init__(self, name: str | None, in_tool_call: bool, in_parameter: bool):
        self.name = name
        self.in_tool_call = in_tool_call
        self.in_parameter = in_parameter


class _Held:
    """Text of the output that may have to be read again.

    Attributes:
        start: Where it goes on in the cursor's text.
        seen: Up to where *lines* has it.
        lines: The answer's lines with it.

    """

    def __init__(self, start: int, lines: _Lines | None) -> None:
        self.start = start
        self.seen = start
        self.lines = lines
        self._taken: list[str] = []  # that the cursor no longer has
        self._taken_length = 0

    def see(self, text: str, end: int) -> None:
        """Read the lines up to *end* of the cursor's text."""
        if end > self.seen:
            if self.lines is not None:
                self.lines.add(text[self.seen : end])
            self.seen = end

    def offset(self, at: int) -> int:
        """Length of the text up to *at* in the cursor's."""
        return self._taken_length + at - self.start

    def text(self, cursor: Cursor, end: int | None = None) -> str:
        """The text, up to *end* in the cursor's."""
        return "".join([*self._taken, cursor.text[self.start : end]])

    def go_back(self, cursor: Cursor, length: int) -> None:
        """Read on behind the first *length* characters of the text."""
        if self._taken:
            cursor.text, self.start = self.text(cursor), 0
        cursor.at = self.start + length

    def take(self, cursor: Cursor) -> None:
        """Take the text off the cursor's, which is about to be dropped."""
        self.see(cursor.text, cursor.at)
        self._taken_length = self.offset(cursor.at)
        self._taken.append(cursor.text[self.start : cursor.at])
        self.start = self.seen = 0


class _HeldCalls(_Held):
    """Calls that count only if nothing but calls follows.

    Attributes:
        events: What the calls are if they count.
        end: Length of the text that is calls, whole ones.
        opening: Length of the text with the opening tags of the call behind that.
        in_reasoning: Whether they begin in the reasoning,
        reasoning_ended: and it ended behind them.
        in_fence: Whether they begin in a code fence.
        on_line: Whether they begin behind the prose of their line, and so count
            if nothing follows on that line.
        is_quoted: Whether they are quoted, listed, indented or in a fence.

    """

    def __init__(
        self,
        start: int,
        lines: _Lines | None,
        *,
        in_reasoning: bool,
        on_line: bool,
        is_quoted: bool,
    ) -> None:
        super().__init__(start, lines)
        self.events: list[Event] = []
        self.end = 0
        self.opening = 0
        self.in_reasoning = in_reasoning
        self.reasoning_ended = False
        self.in_fence = lines is not None and lines.in_fence()
        self.closed_before = lines.closed if lines is not None else 0
        self.on_line = on_line
        self.is_quoted = is_quoted
        self._has_newline = False
        self._searched = start  # up to there it has none

    def has_newline(self, text: str, end: int) -> bool:
        """Whether the text up to *end* has a newline."""
        if not self._has_newline and end > self._searched:
            self._has_newline = text.find("\n", self._searched, end) >= 0
            self._searched = end
        return self._has_newline

    def take(self, cursor: Cursor) -> None:
        self.has_newline(cursor.text, cursor.at)
        super().take(cursor)
        self._searched = 0


class _HeldEnd(_Held):
    """A closing sequence, or a closing tag, of a value that may be literal.

    Attributes:
        end: Length of the text with the tags.
        mirrored: Whether it is spelled as the parameter's opening tag.
        claimed: Whether a quoted parameter may claim it.
        is_weak: Whether it is no closing sequence: any other tag makes it literal.
        ends_call: Whether it ends the call as well.
        is_last: Whether there was only white space behind it so far.

    """

    def __init__(
        self,
        start: int,
        lines: _Lines | None,
        end: int,
        *,
        mirrored: bool,
        claimed: bool,
        ends_call: bool,
        is_weak: bool,
    ) -> None:
        super().__init__(start, lines)
        self.is_weak = is_weak
        self.seen = end
        self.end = end - start
        self.mirrored = mirrored
        self.claimed = claimed
        self.ends_call = ends_call
        self.is_last = True

    def see(self, text: str, end: int) -> None:
        if self.is_last and end > self.seen:
            self.is_last = text[self.seen : end].isspace()
        super().see(text, end)


class _Next(enum.Enum):
    """What follows a closing tag, after white space."""

    PARAMETER = enum.auto()  # an opening tag
    PARAMETER_END = enum.auto()
    CLOSING = enum.auto()  # </function>, </tool_call> or both
    CALL = enum.auto()  # a call in a plain position
    END = enum.auto()  # the model's own end of the output
    TEXT = enum.auto()


class QwenToolReader:
    """Reads one output, in any pieces, into events.

    Args:
        tool_names: Names of the request's tools; without any nothing is a call.
        parameters_of: Declared parameter names of one of these tools.
        required_of: Those that a call must give, and not as null.
        reasoning: Whether the output begins inside the reasoning.
        think_tags: Whether ``<think>`` and ``</think>`` are frame; else text.
        undeclared_calls: Whether other functions than the tools can be called.

    Feed the output with :meth:`feed`, then call :meth:`finish` once.

    """

    def __init__(
        self,
        tool_names: Collection[str] = (),
        parameters_of: Callable[[str], Collection[str]] = lambda name: (),
        *,
        required_of: Callable[[str], Collection[str]] = lambda name: (),
        reasoning: bool = False,
        think_tags: bool = True,
        undeclared_calls: bool = True,
    ) -> None:
        self._tool_names = tool_names
        self._parameters_of = parameters_of
        self._required_of = required_of
        self._think_tags = think_tags
        self._undeclared_calls = undeclared_calls

        self._state: State = _THINK_OPENING if reasoning else _ANSWER
        self._cursor = Cursor()
        self._delivered: list[Event] = []  # of this piece of the output
        self._events = self._delivered
        self._held_calls: _HeldCalls | None = None
        self._held_end: _HeldEnd | None = None
        self._rereads = 0

        # Answer and reasoning.
        self._answered = False  # the answer has visible text
        self._space: list[str] = []  # white space at the end of what was read
        self._gap: str | None = None  # longest around the calls since the text
        self._lines = _Lines() if tool_names else None

        # The call.
        self._declared: Collection[str] = ()
        self._missing: set[str] = set()  # required keys that were not given
        self._given: set[str] = set()
        self._frame_space = ""  # between the last two tags of its frame

        # The value.
        self._indent: str | None = None  # of its closing tag; None: on any line
        self._from = 0  # where its text that was not read begins
        self._quotes: list[_Quote] = []  # that are open
        self._json: list[str] = []  # of a call in JSON

    @property
    def state(self) -> str:
        """Name of the state that reads what comes next."""
        return self._state.__name__.lstrip("_")

    @property
    def in_reasoning(self) -> bool:
        if (held := self._held_calls) is not None:
            return held.in_reasoning
        return self._state is _REASONING or self._state is _THINK_OPENING

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of the output."""
        cursor = self._cursor
        if text and not cursor.text and "<" not in text:
            # Most pieces only go on with the text before them.
            if self._state is _VALUE:
                is_free = self._held_end is None and self._held_calls is None
                if is_free and "\n" not in text:
                    return [(EventType.VALUE, text)]
            elif self._state is _ANSWER and not (
                self._space or not self._answered or text[-1].isspace()
            ):
                if self._lines is not None:
                    self._lines.add(text)
                return [(EventType.CONTENT, text)]
        cursor.text += text
        return self._read([])

    def finish(self, cut: bool = False) -> list[Event]:
        """Decide what is still held.

        Args:
            cut: Whether something else than the model ended the output: then its
                end decides nothing.

        """
        cursor = self._cursor
        events: list[Event] = []
        if not cut:
            cursor.final = True
            self._read(events)
            while self._decide_at_end():
                self._read(events)
        self._delivered = self._events = events
        held_calls = self._held_calls
        self._held_calls = self._held_end = None
        if held_calls is not None:
            self._state = _REASONING if held_calls.in_reasoning else _ANSWER
            self._deliver(held_calls.text(cursor))
        elif self._state in _CALL_STATES:
            self._emit(EventType.CALL_CUT)
        elif self._state is _AFTER_CALL and any(
            tag.startswith(cursor.text) for tag in CLOSING_TAGS
        ):
            pass  # a closing tag that is given twice, cut
        elif cursor.text:
            if not self.in_reasoning:
                self._state = _ANSWER
            self._deliver(cursor.text)
        cursor.text = ""
        if self._state is _REASONING or self._state is _ANSWER:
            self._deliver_space()
        return events

    def _decide_at_end(self) -> bool:
        """Decide on what is held at the model's end; whether to read on."""
        cursor = self._cursor
        held = self._held_calls
        if held is not None:
            at_end = self._state is _AFTER_HELD_CALL and not cursor.text.strip()
            if at_end:
                self._accept_calls()
                self._state = _AFTER_CALL
                cursor.text = ""
                return False
            if self._state in _CALL_STATES:
                self._accept_call_of_lines(len(cursor.text))
                if self._held_calls is None:
                    return False
            self._rereads += 1
            if self._rereads > _MAX_REREADS:
                return False
            is_whole = self._state is _AFTER_HELD_CALL
            self._quote_calls(held.end if is_whole else held.opening)
            return True
        if self._held_end is not None:
            self._rereads += 1
            self._state = self._accept_end(self._held_end)
            return True
        return False

    def _read(self, events: list[Event]) -> list[Event]:
        """Read on into *events*, as far as the text can be decided."""
        self._delivered = self._events = events
        if self._held_calls is not None:
            self._events = self._held_calls.events
        cursor = self._cursor
        start = 0
        try:
            while cursor.at < len(cursor.text):
                start = cursor.at
                state = self._state(self)
                if state is None:
                    break
                self._state = state
        except NeedMore:
            cursor.at = start
        self._take()
        return events

    def _take(self) -> None:
        """Take what was read off what is held."""
        cursor = self._cursor
        if self._state in _CALL_STATES:
            self._accept_call_of_lines(cursor.at)
        if self._held_calls is not None:
            self._held_calls.take(cursor)
        if self._held_end is not None:
            self._held_end.take(cursor)
        cursor.text = cursor.text[cursor.at :]
        cursor.at = 0

    def _emit(self, event: EventType, text: str = "") -> None:
        self._events.append((event, text))

    # ── Answer and reasoning ──────────────────────────────────────────

    def _think_opening(self) -> State:
        """The first characters of the reasoning, which may be ``<think>``."""
        if self._think_tags:
            self._cursor.literal(THINK_START)
        return _REASONING

    def _reasoning(self) -> State:
        if self._text_run():
            return _REASONING
        cursor = self._cursor
        if self._think_tags and cursor.literal(THINK_END):
            self._deliver_space()
            self._emit(EventType.REASONING_END)
            return _ANSWER
        return self._begin_call() or self._literal_tag()

    def _answer(self) -> State:
        """The answer; until it has visible text think tags are frame."""
        if self._text_run():
            return _ANSWER
        cursor = self._cursor
        if self._think_tags and not self._answered:
            if cursor.literal(THINK_START):
                return _REASONING
            if cursor.literal(THINK_END):
                return _ANSWER
        return self._begin_call() or self._literal_tag()

    def _after_call(self) -> State:
        """White space behind a call, and closing tags that are given twice."""
        cursor = self._cursor
        if self._skip_space():
            return _AFTER_CALL
        if self._think_tags and not self._answered and cursor.literal(THINK_END):
            return _AFTER_CALL
        if any(cursor.literal(tag) for tag in CLOSING_TAGS):
            return _AFTER_CALL
        if (state := self._begin_call()) is not None:
            return state
        self._state = _ANSWER
        return self._literal_tag() if cursor.text[cursor.at] == "<" else _ANSWER

    def _skip_space(self) -> bool:
        cursor = self._cursor
        start = cursor.at
        if not cursor.skip_space():
            return False
        space = cursor.text[start : cursor.at]
        self._space.append(space)
        if self._lines is not None:
            self._lines.add(space)
        return True

    def _text_run(self) -> bool:
        """Deliver the text up to the next tag, if there is any."""
        cursor = self._cursor
        start = cursor.at
        end = find_text_tag(cursor.text, start)
        if end == start:
            return False
        cursor.at = end
        self._deliver(cursor.text[start:end])
        return True

    def _literal_tag(self) -> State:
        """Deliver what is no tag, up to the next one."""
        cursor = self._cursor
        start = cursor.at
        cursor.at = find_text_tag(cursor.text, start + 1)
        self._deliver(cursor.text[start : cursor.at])
        return self._state

    def _deliver(self, text: str) -> None:
        """Deliver text of answer or reasoning, white space at its end held back.

        White space before a call belongs to the call's frame; the longest around
        calls that stand between text separates it.
        """
        is_reasoning = self._state is _REASONING
        if not is_reasoning and self._lines is not None:
            self._lines.add(text)
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return
        space = text[len(body) :]
        if self._gap is not None:
            leading = body[: len(body) - len(body.lstrip())]
            self._space.append(leading)
            self._close_gap()
            before, body = self._gap, body[len(leading) :]
            self._gap = None
        else:
            before = "".join(self._space)
        self._space.clear()
        body = before + body
        if is_reasoning:
            self._emit(EventType.REASONING, body)
        else:
            self._answered = True
            self._emit(EventType.CONTENT, body)
        if space:
            self._space.append(space)

    def _deliver_space(self) -> None:
        if self._space and self._gap is None:
            is_reasoning = self._state is _REASONING
            event = EventType.REASONING if is_reasoning else EventType.CONTENT
            self._emit(event, "".join(self._space))
        self._space.clear()

    def _close_gap(self) -> None:
        """White space before a call, or behind one."""
        space = "".join(self._space) if self._answered else ""
        self._space.clear()
        self._gap = max(self._gap or "", space, key=len)

    # ── Where a call begins ───────────────────────────────────────────

    def _begin_call(self) -> State | None:
        """Begin the call whose opening tags are here, if they begin one."""
        cursor = self._cursor
        start = cursor.at
        in_reasoning = self._state is _REASONING
        name = self._call_opening(bare=not in_reasoning)
        if name is None:
            return self._begin_json_call(start)
        has_tag = cursor.text.startswith(TOOL_CALL_START, start)
        is_declared = name in self._tool_names
        if not is_declared and not (self._undeclared_calls and has_tag):
            cursor.at = start
            return None
        assert self._lines is not None
        position = Position.OTHER if in_reasoning else self._lines.position()
        on_line = False
        if is_declared and position is not Position.OTHER:
            opening = cursor.text[start : cursor.at]
            on_line = position is Position.PROSE and "\n" not in opening
            if not on_line:
                if self._held_calls is not None:
                    self._accept_calls()
                self._close_gap()
                return self._open_frame(name)
        is_quoted = position is Position.OTHER
        self._hold_calls(start, on_line=on_line, is_quoted=is_quoted)
        return self._open_frame(name)

    def _begin_json_call(self, start: int) -> State | None:
        cursor = self._cursor
        if not (
            self._tool_names
            and cursor.literal(TOOL_CALL_START)
            and cursor.gap()
            and cursor.literal("{")
        ):
            cursor.at = start
            return None
        cursor.at -= 1
        self._hold_calls(start, on_line=False, is_quoted=True)
        self._json.clear()
        return _JSON_CALL

    def _call_opening(self, *, bare: bool = True) -> str | None:
        """Match ``<tool_call>``, white space, ``<function=NAME>``, with another
        tag of the frame behind it.

        Args:
            bare: Whether ``<function=NAME>`` may stand without ``<tool_call>``.

        Returns:
            The function's name.

        """
        if not self._tool_names:
            return None
        cursor = self._cursor
        start = cursor.at
        if cursor.literal(TOOL_CALL_START):
            name = cursor.named_tag(FUNCTION_PREFIX) if cursor.gap() else None
        else:
            name = cursor.named_tag(FUNCTION_PREFIX) if bare else None
        end = cursor.at
        if (
            name is not None
            and cursor.gap()
            and (
                cursor.named_tag(PARAMETER_PREFIX) is not None
                or cursor.literal(FUNCTION_END)
                or cursor.literal(TOOL_CALL_END)
            )
        ):
            cursor.at = end
            return trim_name(name)
        cursor.at = start
        return None

    # ── Calls that are held ───────────────────────────────────────────

    def _hold_calls(self, start: int, *, on_line: bool, is_quoted: bool) -> None:
        held = self._held_calls
        in_reasoning = self._state is _REASONING
        if held is None:
            lines = None
            if self._lines is not None and not in_reasoning:
                lines = self._lines.copy()
            held = _HeldCalls(
                start,
                lines,
                in_reasoning=in_reasoning,
                on_line=on_line,
                is_quoted=is_quoted,
            )
            self._held_calls = held
            self._events = held.events
        held.opening = held.offset(self._cursor.at)

    def _accept_calls(self) -> None:
        """The held calls count."""
        held = self._held_calls
        assert held is not None
        self._held_calls = None
        if held.in_reasoning:
            self._space.clear()
            self._delivered.append((EventType.REASONING_END, ""))
        self._close_gap()
        self._events = self._delivered
        self._events += held.events
        if self._lines is not None:
            self._lines.end_call()

    def _accept_call_of_lines(self, at: int) -> None:
        """Accept an unfinished call behind prose if it has a newline before *at*."""
        held, text = self._held_calls, self._cursor.text
        if held is not None and held.on_line and held.has_newline(text, at):
            self._accept_calls()

    def _accept_calls_here(self) -> State:
        """The held calls, which are whole, count; read on behind them."""
        held = self._held_calls
        assert held is not None
        held.go_back(self._cursor, held.end)
        self._accept_calls()
        return _AFTER_CALL

    def _quote_calls(self, length: int) -> State:
        """The held calls are text, of *length* characters; read on behind it."""
        held, cursor = self._held_calls, self._cursor
        assert held is not None
        self._held_calls = self._held_end = None
        self._events = self._delivered
        held.go_back(cursor, length)
        self._quotes.clear()
        self._state = _REASONING if held.in_reasoning else _ANSWER
        self._deliver(cursor.text[held.start : cursor.at])
        return self._state

    def _hold_is_over(self, at: int) -> bool:
        """Whether the code fence around an unfinished held call has closed."""
        held = self._held_calls
        if held is None or not held.in_fence or held.lines is None:
            return False
        held.see(self._cursor.text, at)
        return not held.lines.in_fence() or held.lines.closed > held.closed_before

    def _after_held_call(self) -> State | None:
        """Behind a held call, which what follows makes a call or text."""
        cursor, held = self._cursor, self._held_calls
        assert held is not None
        start = cursor.at
        if held.on_line and held.has_newline(cursor.text, start):
            return self._accept_calls_here()
        if cursor.skip_space():
            return _AFTER_HELD_CALL
        if not held.in_reasoning:
            name = self._call_opening()
            if name is not None and name in self._tool_names:
                held.see(cursor.text, start)
                assert held.lines is not None
                cursor.at = start
                if held.on_line or held.lines.position() is Position.PLAIN:
                    if held.is_quoted:
                        return self._quote_calls(held.end)
                    return self._accept_calls_here()
            cursor.at = start
        elif (
            self._think_tags and not held.reasoning_ended and cursor.literal(THINK_END)
        ):
            held.reasoning_ended = True
            return _AFTER_HELD_CALL
        if not held.reasoning_ended and not held.on_line:
            name = self._call_opening(bare=False)
            if name is not None and (
                self._undeclared_calls or name in self._tool_names
            ):
                self._hold_calls(start, on_line=False, is_quoted=True)
                return self._open_frame(name)
            cursor.at = start
            if (state := self._begin_json_call(start)) is not None:
                return state
        return self._quote_calls(held.end)

    def _json_call(self) -> State | None:
        """A call that is written as a JSON object."""
        cursor = self._cursor
        start = cursor.at
        end = cursor.text.find(TOOL_CALL_END, start)
        if end < 0:
            cursor.at = max(start, len(cursor.text) - len(TOOL_CALL_END) + 1)
            self._json.append(cursor.text[start : cursor.at])
            return None
        self._json.append(cursor.text[start:end])
        cursor.at = end + len(TOOL_CALL_END)
        call = read_json_call("".join(self._json))
        held = self._held_calls
        assert held is not None
        if call is None or call[0] not in self._tool_names:
            return self._quote_calls(held.offset(cursor.at))
        self._emit(EventType.CALL, call[0])
        for key, value in call[1].items():
            self._emit(EventType.PARAMETER, key)
            self._emit(EventType.VALUE, value)
            self._emit(EventType.VALUE_END)
        return self._end_call()

    # ── The call's frame ──────────────────────────────────────────────

    def _open_frame(self, name: str) -> State:
        is_declared = name in self._tool_names
        self._declared = self._parameters_of(name) if is_declared else ()
        self._missing = set(self._required_of(name)) if is_declared else set()
        self._given.clear()
        self._frame_space = ""
        self._emit(EventType.CALL, name)
        return _CALL

    def _end_call(self) -> State:
        self._accept_call_of_lines(self._cursor.at)
        self._emit(EventType.CALL_END)
        if (held := self._held_calls) is not None:
            held.end = held.offset(self._cursor.at)
            return _AFTER_HELD_CALL
        if self._lines is not None:
            self._lines.end_call()
        return _AFTER_CALL

    def _call(self) -> State:
        """Between two tags of the frame."""
        cursor = self._cursor
        start = cursor.at
        if cursor.skip_space():
            self._frame_space += cursor.text[start : cursor.at]
            return _CALL
        if (key := cursor.named_tag(PARAMETER_PREFIX)) is not None:
            return self._begin_parameter(key)
        if cursor.literal(PARAMETER_END):
            return _CALL
        if cursor.literal(FUNCTION_END):
            cursor.skip(lambda: cursor.gap() and cursor.literal(TOOL_CALL_END))
            return self._end_call()
        if cursor.literal(TOOL_CALL_END):
            return self._end_call()
        # Only a tag that stands there makes this state.
        return self._end_call()

    def _begin_parameter(self, tag_name: str) -> State:
        key, value = self._split_key(tag_name)
        self._given.add(key)
        self._missing.discard(key)
        self._quotes.clear()
        self._emit(EventType.PARAMETER, key)
        _before, newline, indent = self._frame_space.rpartition("\n")
        self._indent = indent if newline else ""
        self._frame_space = ""
        if not value:
            return _VALUE_OPENING
        # The tag's rest is the value's beginning, so no newline is frame.
        self._emit(EventType.VALUE, value)
        self._indent = None
        return _VALUE

    def _split_key(self, tag_name: str) -> tuple[str, str]:
        """Split ``KEY=VALUE``, where only KEY is declared, as models mangle it."""
        key = trim_name(tag_name)
        if key not in self._declared and "=" in key:
            head, _, value = tag_name.partition("=")
            head = trim_name(head)
            if head in self._declared:
                return head, value
        return key, ""

    # ── The value ─────────────────────────────────────────────────────

    def _value_opening(self) -> State:
        """The newline behind ``<parameter=KEY>``, which is frame."""
        if not self._cursor.literal("\n"):
            self._indent = None
        return _VALUE_START

    def _value_start(self) -> State | None:
        """The first characters of a value: a line begins here."""
        return self._read_value(at_line_start=self._indent is not None)

    def _value(self) -> State | None:
        return self._read_value(at_line_start=False)

    def _read_value(self, at_line_start: bool) -> State | None:
        """Read the value's text up to its end, or to a tag that may be it."""
        cursor = self._cursor
        text = cursor.text
        self._from = cursor.at
        self._from_line_start = at_line_start
        held = self._held_calls
        in_reasoning = held is not None and held.in_reasoning
        tags = _THINK_VALUE_TAGS if in_reasoning else _VALUE_TAGS
        tag = text.find("<", self._from)
        while tag >= 0:
            if text.startswith(tags, tag):
                cursor.at = tag
                self._accept_call_of_lines(tag)
                if self._hold_is_over(tag):
                    held = self._held_calls
                    assert held is not None
                    return self._quote_calls(held.offset(tag))
                try:
                    state = self._tag_in_value(tag)
                except NeedMore:
                    break
                if state is not None:
                    return state
                tag = text.find("<", cursor.at)
            elif len(text) - tag < 4 and text[tag:] in _CUT_TAGS:
                break
            else:
                tag = text.find("<", tag + 1)
        else:
            tag = len(text)
        end = self._value_end(tag)
        cursor.at = self._from
        if self._held_end is None:
            self._emit_value(end)
        if end > cursor.at or not at_line_start:
            self._state = _VALUE
        cursor.at = self._from = end
        return None

    def _emit_value(self, end: int) -> None:
        """Emit the value's text up to *end*, what is held included."""
        cursor = self._cursor
        if (held := self._held_end) is not None:
            text = held.text(cursor, end)
            self._held_end = None
        else:
            text = cursor.text[self._from : end]
        if text:
            self._emit(EventType.VALUE, text)
        self._from = max(self._from, end)

    def _line_start(self, at: int) -> int:
        """Where the line begins whose indentation ends at *at*, or -1."""
        text = self._cursor.text
        low = max(self._from, at - MAX_GAP - 1)
        line = at
        while line > low and text[line - 1] in " \t":
            line -= 1
        if line > low and text[line - 1] == "\n":
            return line
        return line if line == self._from and self._from_line_start else -1

    def _value_end(self, at: int) -> int:
        """Where the value ends if *at* is its closing tag, or the text's end.

        A newline before the tag, and the indentation behind it, are frame.
        """
        line = self._line_start(at)
        return at if line < 0 else max(self._from, line - 1)

    def _mirrors(self, tag: int) -> bool:
        """Whether the closing tag is spelled as the parameter's opening tag."""
        if self._indent is None:
            return True
        line = self._line_start(tag)
        return line >= 0 and self._cursor.text[line:tag] == self._indent

    def _tag_in_value(self, tag: int) -> State | None:
        """Decide on a tag inside the value.

        Returns:
            The next state if the tag ends the value.  Otherwise the cursor is
            behind what is literal.

        """
        cursor = self._cursor
        if cursor.text[tag + 1] != "/":
            return self._opening_in_value(tag)
        if cursor.literal(PARAMETER_END):
            return self._parameter_end(tag)
        if cursor.literal(FUNCTION_END):
            return self._function_end(tag)
        if cursor.literal(TOOL_CALL_END):
            return self._tool_call_end(tag)
        if (
            self._held_calls is not None
            and self._think_tags
            and cursor.literal(THINK_END)
        ):
            # It ends the reasoning, and with it the call that is held in it.
            return self._quote_calls(self._held_calls.offset(tag))
        cursor.at = tag + 1
        return None

    def _end_value(self, tag: int, at: int) -> State:
        """End the value before *tag*; the frame goes on at *at*."""
        self._emit_value(self._value_end(tag))
        self._emit(EventType.VALUE_END)
        self._quotes.clear()
        self._cursor.at = at
        self._frame_space = ""
        return _CALL

    def _following(self) -> tuple[_Next, str]:
        """What follows a closing tag; the key if it is a parameter.

        The cursor moves behind closing tags, and stays before an opening one.
        """
        cursor = self._cursor
        try:
            if not cursor.gap():
                return _Next.TEXT, ""
            start = cursor.at
            if cursor.literal(PARAMETER_END):
                return _Next.PARAMETER_END, ""
            if (name := cursor.named_tag(PARAMETER_PREFIX)) is not None:
                cursor.at = start
                return _Next.PARAMETER, self._split_key(name)[0]
            if cursor.literal(FUNCTION_END):
                cursor.skip(lambda: cursor.gap() and cursor.literal(TOOL_CALL_END))
                return _Next.CLOSING, ""
            if cursor.literal(TOOL_CALL_END):
                return _Next.CLOSING, ""
            if self._is_plain_call(start):
                cursor.at = start
                return _Next.CALL, ""
            cursor.at = start
        except NeedMore:
            if not cursor.final:
                raise
            rest = cursor.text[cursor.at :].strip()
            if any(tag.startswith(rest) for tag in CLOSING_TAGS):
                return _Next.END, ""
        return _Next.TEXT, ""

    def _is_plain_call(self, start: int) -> bool:
        """Whether a call to a tool of the request begins behind a closing tag."""
        text = self._cursor.text
        if self._call_opening() not in self._tool_names:
            return False
        gap = text[max(0, start - MAX_GAP) : start]
        gap = gap[len(gap.rstrip()) :]
        return "\n" not in gap or gap.endswith("\n")

    def _parameter_end(self, tag: int) -> State | None:
        """Decide on a ``</parameter>``; the cursor is behind it."""
        cursor = self._cursor
        behind = cursor.at
        following, key = self._following()
        quote = self._quotes[-1] if self._quotes else None
        if quote is not None and quote.in_parameter:
            return self._quoted_parameter_end(quote, tag, behind, following, key)
        mirrors = self._mirrors(tag)
        for _ in range(MAX_REPEATS):
            if following is not _Next.PARAMETER_END:
                break
            if not mirrors and self._mirrors(cursor.at - len(PARAMETER_END)):
                cursor.at = behind  # the second one is the value's
                return None
            behind = cursor.at
            following, key = self._following()
        is_due = key in self._declared and key not in self._given
        if following is _Next.PARAMETER and is_due:
            return self._end_value(tag, behind)
        if following is _Next.CLOSING:
            return self._closing_sequence(tag, cursor.at)
        if quote is None and self._held_end is None:
            if following is _Next.PARAMETER and mirrors:
                if (
                    self._missing
                    and self._held_calls is None
                    and key not in self._declared
                    and self._is_of_tool(key)
                ):
                    self._hold_end(tag, behind, mirrored=True, ends_call=False)
                    return None
                return self._end_value(tag, behind)
            if following is _Next.CALL or (
                following is _Next.END and self._held_calls is None
            ):
                self._end_value(tag, behind)
                return self._end_call()
            if mirrors and self._indent is not None and self._held_calls is None:
                self._hold_end(tag, behind, mirrored=True, is_weak=True)
                return None
        cursor.at = behind
        return None

    def _quoted_parameter_end(
        self, quote: _Quote, tag: int, behind: int, following: _Next, key: str
    ) -> State | None:
        """Decide on a ``</parameter>`` that an open quote may claim."""
        cursor = self._cursor
        if following is _Next.PARAMETER:
            is_due = key in self._declared and key not in self._given
            if is_due and (quote.name is None or not self._takes(quote, key)):
                return self._end_value(tag, behind)
            quote.in_parameter = False
        elif following is _Next.CLOSING:
            if quote.name is None:
                return self._closing_sequence(tag, cursor.at, claimed=True)
            end = cursor.at
            if (
                self._held_end is None
                and self._held_calls is None
                and self._following()[0] is _Next.END
            ):
                return self._closing_sequence(tag, end)
            quote.in_parameter = False
        else:
            quote.in_parameter = False
        if quote.name is None and not quote.in_parameter:
            self._quotes.pop()
        cursor.at = behind
        return None

    def _waits(self) -> bool:
        """Whether a required key may still come, which a call does not decide."""
        return bool(self._missing) and self._rereads <= _MAX_REREADS

    def _takes(self, quote: _Quote, key: str) -> bool:
        """Whether the quoted call may have a parameter of this name."""
        name = quote.name
        return name not in self._tool_names or key in self._parameters_of(name)

    def _is_of_tool(self, key: str) -> bool:
        """Whether a tool of the request has a parameter of this name."""
        return any(key in self._parameters_of(name) for name in self._tool_names)

    def _closing_sequence(
        self, tag: int, end: int, *, claimed: bool = False
    ) -> State | None:
        """Decide on a closing sequence that no quoted block claims."""
        cursor = self._cursor
        cursor.at = end
        following, _ = self._following()
        self._quotes.clear()
        mirrored = self._mirrors(tag)
        held = self._held_end
        if held is not None and held.ends_call:
            held.see(cursor.text, tag)
            if held.is_weak:
                held = None
            elif held.is_last and not held.claimed and (held.mirrored or not mirrored):
                held.end = held.offset(end)  # given twice
                held.seen = end
            elif mirrored or not held.mirrored:
                held = None  # literal
        if held is None:
            self._hold_end(tag, end, mirrored=mirrored, claimed=claimed)
            held = self._held_end
            assert held is not None
        if (
            following is _Next.END
            or (following is _Next.CALL and not self._waits())
            or self._held_calls is not None
        ):
            return self._accept_end(held)
        cursor.at = end
        return None

    def _hold_end(
        self,
        tag: int,
        end: int,
        *,
        mirrored: bool,
        claimed: bool = False,
        ends_call: bool = True,
        is_weak: bool = False,
    ) -> None:
        """Hold what may end the value, from *tag* to *end*."""
        start = self._value_end(tag)
        self._emit_value(start)
        lines = None
        if self._lines is not None:
            lines = self._lines.copy()
            lines.end_call()
        self._held_end = _HeldEnd(
            start,
            lines,
            end,
            mirrored=mirrored,
            claimed=claimed,
            ends_call=ends_call,
            is_weak=is_weak,
        )
        self._from = start
        self._cursor.at = end

    def _accept_end(self, held: _HeldEnd) -> State:
        """What is held ends the value; read on behind it."""
        cursor = self._cursor
        self._held_end = None
        held.go_back(cursor, held.end)
        self._quotes.clear()
        self._emit(EventType.VALUE_END)
        if held.ends_call:
            return self._end_call()
        self._frame_space = ""
        return _CALL

    def _function_end(self, tag: int) -> State | None:
        """Decide on a ``</function>``; the cursor is behind it."""
        cursor = self._cursor
        behind = cursor.at
        quote = self._quotes[-1] if self._quotes else None
        is_whole = cursor.skip(lambda: cursor.gap() and cursor.literal(TOOL_CALL_END))
        if quote is not None and quote.name is not None:
            if is_whole and not quote.in_tool_call:
                cursor.at, is_whole = behind, False
            if is_whole or not quote.in_parameter or self._line_start(tag) >= 0:
                self._quotes.pop()
            else:
                cursor.at = behind
            return None
        end = cursor.at
        following, _ = self._following()
        if self._held_end is None and quote is None:
            if following in (_Next.CALL, _Next.END):
                self._end_value(tag, end)
                return self._end_call()
            if (
                self._held_calls is None
                and is_whole
                and self._mirrors(tag)
                and self._indent is not None
            ):
                self._hold_end(tag, end, mirrored=False, claimed=True)
                return None
        cursor.at = end
        return None

    def _tool_call_end(self, tag: int) -> State | None:
        """Decide on a ``</tool_call>``; the cursor is behind it."""
        cursor = self._cursor
        end = cursor.at
        quote = self._quotes[-1] if self._quotes else None
        if quote is not None:
            if quote.in_tool_call and not quote.in_parameter:
                self._quotes.pop()
        elif (
            self._held_end is None
            and self._held_calls is None
            and self._following()[0] in (_Next.CALL, _Next.END)
        ):
            self._end_value(tag, end)
            return self._end_call()
        cursor.at = end
        return None

    def _opening_in_value(self, tag: int) -> State | None:
        """Decide on an opening tag inside the value."""
        cursor = self._cursor
        text = cursor.text
        quote = self._quotes[-1] if self._quotes else None
        if text.startswith("<pa", tag):
            return self._parameter_in_value(quote, tag)
        name: str | None = None
        if cursor.skip(lambda: self._call_opening() is not None):
            end, cursor.at = cursor.at, tag
            name = self._call_opening()
            cursor.at = end
        if name is None:
            cursor.at = tag + 1
            return None
        held = self._held_end
        if held is not None and held.is_weak:
            self._emit_value(self._value_end(tag))
            held = None
        if (
            held is not None
            and quote is None
            and name in self._tool_names
            and not self._waits()
        ):
            held.see(text, tag)
            assert held.lines is not None
            position = held.lines.position()
            if position is Position.PLAIN or (
                position is Position.PROSE and "\n" in text[tag : cursor.at]
            ):
                return self._accept_end(held)
        self._quotes.append(_Quote(name, text.startswith("<to", tag), False))
        return None

    def _parameter_in_value(self, quote: _Quote | None, tag: int) -> State | None:
        """Decide on a ``<parameter=KEY>`` inside the value."""
        cursor = self._cursor
        try:
            name = cursor.named_tag(PARAMETER_PREFIX)
        except NeedMore:
            if not cursor.final:
                raise
            name = None
        if name is None:
            cursor.at = tag + 1
        elif quote is not None and quote.name is not None:
            quote.in_parameter = True
        elif self._line_start(tag) >= 0:
            key = self._split_key(name)[0]
            if key in self._declared and key not in self._given:
                return self._end_value(tag, tag)
            if quote is None:
                self._quotes.append(_Quote(None, False, True))
        return None


_THINK_OPENING: State = QwenToolReader._think_opening
_REASONING: State = QwenToolReader._reasoning
_ANSWER: State = QwenToolReader._answer
_AFTER_CALL: State = QwenToolReader._after_call
_AFTER_HELD_CALL: State = QwenToolReader._after_held_call
_CALL: State = QwenToolReader._call
_JSON_CALL: State = QwenToolReader._json_call
_VALUE_OPENING: State = QwenToolReader._value_opening
_VALUE_START: State = QwenToolReader._value_start
_VALUE: State = QwenToolReader._value
_CALL_STATES = (_CALL, _VALUE_OPENING, _VALUE_START, _VALUE)
