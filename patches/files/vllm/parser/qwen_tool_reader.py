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
calls.  What follows a tag decides.  Text that cannot be decided yet is held
back, and the decision never depends on how the output was cut: the events of
an output, joined, are the same for every cut.

The reader works on text alone.  Token ids prove nothing here, because a model
writing *about* tool calls emits the very same special tokens.

Each state of :class:`QwenToolReader` is a method that reads one thing, a run
of text or a tag, and returns the next state, or ``None`` if it needs more text::

    think_opening -> reasoning -> answer | call
    answer -> call | undeclared_call | reasoning (before visible text)
    call -> value_opening -> value_start -> value -> call
    call -> after_call | call (of the next call)
    after_call -> answer | call | undeclared_call

A call to a function that the request does not declare counts only if its whole
block stands at the end of the answer.  Its events wait until the block turns
out to be a call or text, and what was read as text is not read again::

    undeclared_call -> value_opening -> value_start -> value -> undeclared_call
    undeclared_call -> after_undeclared_call | answer (the blocks were text)
    after_undeclared_call -> call | undeclared_call | answer (likewise)

Text that is held belongs to the state before it.  Within a value, the blocks
that it quotes (``_blocks``) say whether a tag can end it.
"""

from __future__ import annotations

import enum
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
    CALL_CUT = enum.auto()  # in place of the ends: the output ended within the call


# Looked up once, because every piece asks.
_REASONING_TEXT = EventType.REASONING
_CONTENT_TEXT = EventType.CONTENT
_VALUE_TEXT = EventType.VALUE

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

# Longest name in a tag, and longest white space between two tags of one frame.
# They bound what is held back, and with it the work done twice.
MAX_NAME = 128
MAX_GAP = 256

# How the tags begin that can mean something in text and in a value, and what
# such a beginning may look like where the text ends.
_TEXT_TAGS = ("</th", "</to", "<th", "<to", "<fu")
_VALUE_TAGS = ("</pa", "</fu", "</to", "<pa", "<fu", "<to")
_LAST_VALUE_TAGS = (*_VALUE_TAGS, "</p", "</f", "</t")  # at the output's end
_CUT_TAGS = frozenset(
    tag[:end] for tag in (*_TEXT_TAGS, *_VALUE_TAGS) for end in range(1, len(tag))
)

# As str.isspace() has it: unlike Python's own, this \s has no U+001C to U+001F.
_GAP = re.compile(rf"[\s\x1c-\x1f]{{0,{MAX_GAP + 1}}}")
# What opens a code fence, in a quote or a list as well.
_FENCE = re.compile(r"((?:[\s>]|(?:[-*+]|\d{1,9}[.)])(?=\s))*)(`{3,}|~{3,})(.*)")
_QUOTE = re.compile(r"[\s>]*")
_MAX_LINE = 1024  # of a line that is kept
_MAX_PIECES = 256


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

    def lookahead(self, match: Callable[[], bool], *, when_cut: bool) -> bool:
        """Whether *match* succeeds here, without moving.

        Args:
            match: Matches with this cursor.
            when_cut: The answer if the output ends within what it matches.

        Raises:
            NeedMore: The text ends within it, and the output may go on.

        """
        at = self.at
        if not self.final:
            matched = match()
        else:
            try:
                matched = match()
            except NeedMore:
                matched = when_cut
        self.at = at
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


class _Lines:
    """Where in the answer's Markdown its text ends.

    Most answers are never asked, so text is only collected at first.
    """

    def __init__(self) -> None:
        self.pieces: list[str] = []  # that were not read yet
        self._line = ""  # the last line, as far as it is kept
        self._more_text = False  # behind that it has visible text,
        self._more_ticks = False  # or backticks
        self._fence = ""  # what opened the code fence that is open
        self._quoted = False  # it was opened in a block quote

    def add(self, text: str) -> None:
        self.pieces.append(text)
        if len(self.pieces) > _MAX_PIECES:
            self._read()

    def may_begin_call(self) -> bool:
        """Whether a line begins here, outside a code fence."""
        self._read()
        return not (self._fence or self._more_text or self._line.strip())

    def _read(self) -> None:
        """Read the pieces that were collected."""
        text = "".join(self.pieces)
        self.pieces.clear()
        if not self._fence:
            marks = self._line + text
            if "```" not in marks and "~~~" not in marks:
                # No line of these opens a fence: only the last one counts.
                _, newline, text = text.rpartition("\n")
                if newline:
                    self._line, self._more_text, self._more_ticks = "", False, False
        first, *lines = text.split("\n")
        self._go_on(first)
        for line in lines:
            self._end_line()
            self._go_on(line)

    def _go_on(self, text: str) -> None:
        """Read more of the last line."""
        room = _MAX_LINE - len(self._line)
        if len(text) > room:
            more, text = text[room:], text[:room]
            self._more_text = self._more_text or not more.isspace()
            self._more_ticks = self._more_ticks or "`" in more
        self._line += text

    def _end_line(self) -> None:
        line, more_text = self._line, self._more_text
        more_ticks = self._more_ticks
        self._line, self._more_text, self._more_ticks = "", False, False
        if self._fence:
            start = _QUOTE.match(line).end() if self._quoted else 0
            marks = line[start:].strip()
            if marks.startswith(self._fence) and not marks.strip(marks[0]):
                self._fence = self._fence if more_text else ""
        elif (match := _FENCE.match(line)) is not None:
            before, marks, rest = match.groups()
            if marks[0] == "~" or not (more_ticks or "`" in rest):
                self._fence, self._quoted = marks, ">" in before


class _Block:
    """A block that a value quotes.

    Attributes:
        in_tool_call: Whether ``<tool_call>`` began it.
        in_value: Whether one of its own parameters is open.

    """

    __slots__ = ("in_tool_call", "in_value")

    def __init__(self, in_tool_call: bool, in_value: bool) -> None:
        self.in_tool_call = in_tool_call
        self.in_value = in_value


class _UndeclaredCalls:
    """Blocks that call undeclared functions, until it is clear what they are.

    Attributes:
        events: What the blocks are if they are calls.
        taken: Their text that the cursor no longer holds.
        start: Where their text goes on in the cursor's.

    """

    def __init__(self, start: int) -> None:
        self.events: list[Event] = []
        self.taken: list[str] = []
        self.start = start
        self._taken_length = 0

    def length(self, at: int) -> int:
        """Length of their text up to *at* in the cursor's."""
        return self._taken_length + at - self.start

    def take(self, cursor: Cursor) -> None:
        """Take their text off the cursor's, which is about to be dropped."""
        self._taken_length = self.length(cursor.at)
        self.taken.append(cursor.text[self.start : cursor.at])
        self.start = 0


class QwenToolReader:
    """Reads one output, in any pieces, into events.

    Args:
        tool_names: Names of the request's tools; without any nothing is a call.
        parameters_of: Declared parameter names of one of these tools.
        reasoning: Whether the output begins inside the reasoning.
        think_tags: Whether ``<think>`` and ``</think>`` are frame; else text.
        undeclared_calls: Whether other functions than the tools can be called.

    Feed the output with :meth:`feed`, then call :meth:`finish` once.

    Attributes:
        undeclared_call_count: Calls to functions that are no tools.
        forgiven_tag_count: Closing tags that the model forgot.
        most_held: The most characters that waited for a decision at once.

    """

    def __init__(
        self,
        tool_names: Collection[str] = (),
        parameters_of: Callable[[str], Collection[str]] = lambda name: (),
        *,
        reasoning: bool = False,
        think_tags: bool = True,
        undeclared_calls: bool = True,
    ) -> None:
        self._tool_names = tool_names
        self._parameters_of = parameters_of
        self._think_tags = think_tags
        self.undeclared_call_count = 0
        self.forgiven_tag_count = 0
        self.most_held = 0

        self._state: State = _THINK_OPENING if reasoning else _ANSWER
        self._cursor = Cursor()
        self._delivered: list[Event] = []  # of this piece of the output
        self._events = self._delivered

        # The answer.
        self._answered = False  # it has visible text
        self._space: list[str] = []  # white space at the end of what was read
        # Only a call to an undeclared function asks for them.
        self._lines = _Lines() if tool_names and undeclared_calls else None
        self._pieces = self._lines.pieces if self._lines else None
        self._tool_call_end_due = False  # a call ended by its </function>

        # The call.
        self._declared: Collection[str] = ()
        self._given: set[str] = set()
        self._stray: list[str] = []  # text between the tags of the frame
        self._after_value: State = _CALL
        self._blocks: list[_Block] = []  # that the value has opened

        self._undeclared: _UndeclaredCalls | None = None

    @property
    def state(self) -> str:
        """Name of the state that reads what comes next."""
        return self._state.__name__.lstrip("_")

    @property
    def in_reasoning(self) -> bool:
        return self._state is _REASONING or self._state is _THINK_OPENING

    def feed_plain(self, text: str) -> EventType | None:
        """Read a piece that only goes on with the text before it, as most do.

        Args:
            text: A piece without ``<``.

        Returns:
            The type of its event, whose text is the piece; or None, and nothing
            was read: :meth:`feed` takes any piece, and would read the same.

        """
        if not text or self._cursor.text:
            return None
        state = self._state
        if state is _VALUE:
            if text[-1] == "\n" or self._undeclared is not None:
                return None
            return _VALUE_TEXT
        if self._space or text[-1].isspace():
            return None
        if state is _ANSWER and self._answered:
            if (pieces := self._pieces) is not None:
                if len(pieces) == _MAX_PIECES:
                    return None
                pieces.append(text)
            return _CONTENT_TEXT
        return _REASONING_TEXT if state is _REASONING else None

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of the output.

        A value's, as most are that :meth:`feed_plain` leaves, take a short way:
        :meth:`feed_states` would read the same.
        """
        if self._state is not _VALUE or self._undeclared is not None:
            return self.feed_states(text)
        cursor = self._cursor
        if cursor.text:
            text = cursor.text + text
        cursor.text = text
        end, ends = self._find_value_end(at_line_start=False)
        events = [(_VALUE_TEXT, text[:end])] if end else []
        if ends:
            events.append((EventType.VALUE_END, ""))
            self._state = self._after_value
            return self._read(events)
        held = len(text) - end
        if held > self.most_held:
            self.most_held = held
        cursor.text = text[end:]
        cursor.at = 0
        return events

    def feed_states(self, text: str) -> list[Event]:
        """Read the next piece of the output through the states."""
        self._cursor.text += text
        return self._read([])

    def finish(self, cut: bool = False) -> list[Event]:
        """Decide what is still held: nothing follows.

        Args:
            cut: Whether the output ends where the model did not end it.

        """
        cursor = self._cursor
        if cut and self._undeclared is None and self._state in _CALL_STATES:
            return [(EventType.CALL_CUT, "")]
        cursor.final = True
        events = self._read([])
        while self._undeclared is not None:
            self._end_undeclared()
            events += self._read([])
        self._events = events
        rest, cursor.text = cursor.text, ""
        if self._state in _CALL_STATES:
            # The rest is a tag of the frame that the end cut.
            if self._state is not _CALL:
                self._emit(EventType.VALUE_END)
            self._state = self._end_call()
        elif rest:
            self._state = _REASONING if self.in_reasoning else _ANSWER
            self._deliver(rest)
        if self._state is not _AFTER_CALL:
            self._deliver_space()
        return events

    def _read(self, events: list[Event]) -> list[Event]:
        """Read on into *events*, as far as the text can be decided."""
        self._delivered = self._events = events
        if self._undeclared is not None:
            self._events = self._undeclared.events
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
        held = len(cursor.text) - cursor.at
        if (undeclared := self._undeclared) is not None:
            undeclared.take(cursor)
            held += undeclared.length(0)
        if held > self.most_held:
            self.most_held = held
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
        start = cursor.at
        if self._think_tags and cursor.literal(THINK_END):
            self._deliver_space()
            self._emit(EventType.REASONING_END)
            return _ANSWER
        name = self._call_opening()
        if name is not None and name in self._tool_names:
            self._emit(EventType.REASONING_END)
            return self._begin_call(name)
        cursor.at = start
        return self._literal_tag()

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
        return self._tag_in_answer() or self._literal_tag()

    def _after_call(self) -> State:
        """White space behind a call, which is frame up to the next text."""
        cursor = self._cursor
        if cursor.skip_space():
            return _AFTER_CALL
        if self._think_tags and not self._answered and cursor.literal(THINK_END):
            return _AFTER_CALL
        if (state := self._tag_in_answer()) is not None:
            return state
        self._state = _ANSWER
        return self._literal_tag()

    def _tag_in_answer(self) -> State | None:
        """Read a tag that is more than text of the answer."""
        cursor = self._cursor
        if self._tool_call_end_due and cursor.literal(TOOL_CALL_END):
            self._tool_call_end_due = False
            return self._state
        start = cursor.at
        name = self._call_opening()
        if name is None:
            return None
        if name in self._tool_names:
            return self._begin_call(name)
        if self._may_be_undeclared(start):
            return self._begin_undeclared(name, start)
        cursor.at = start
        return None

    def _call_opening(self) -> str | None:
        """Match ``<tool_call>``, white space, ``<function=NAME>``.

        Outside the reasoning a bare ``<function=NAME>`` begins a call as well.

        Returns:
            The function's name.

        """
        if not self._tool_names:
            return None
        cursor = self._cursor
        start = cursor.at
        if cursor.literal(TOOL_CALL_START):
            name = cursor.named_tag(FUNCTION_PREFIX) if cursor.gap() else None
        elif self._state is _REASONING:
            return None
        else:
            name = cursor.named_tag(FUNCTION_PREFIX)
        if name is None:
            cursor.at = start
            return None
        return trim_name(name)

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

        White space before a call belongs to the call's frame.
        """
        is_reasoning = self._state is _REASONING
        if not is_reasoning and self._lines is not None:
            self._lines.add(text)
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return
        space = text[len(body) :]
        if self._space:
            body = "".join(self._space) + body
            self._space.clear()
        if is_reasoning:
            self._emit(EventType.REASONING, body)
        else:
            self._answered = True
            self._tool_call_end_due = False
            self._emit(EventType.CONTENT, body)
        if space:
            self._space.append(space)

    def _deliver_space(self) -> None:
        if self._space:
            is_reasoning = self._state is _REASONING
            event = EventType.REASONING if is_reasoning else EventType.CONTENT
            self._emit(event, "".join(self._space))
            self._space.clear()

    # ── The call's frame ──────────────────────────────────────────────

    def _begin_call(self, name: str) -> State:
        if not self._answered:
            self._space.clear()
        self._tool_call_end_due = False
        return self._open_frame(name, _CALL)

    def _open_frame(self, name: str, frame: State) -> State:
        self._declared = self._parameters_of(name)
        self._given.clear()
        self._after_value = frame
        self._emit(EventType.CALL, name)
        return frame

    def _end_call(self) -> State:
        """End the call, and deliver the text between the tags of its frame."""
        self._emit(EventType.CALL_END)
        stray = "".join(self._stray).strip()
        self._stray.clear()
        if stray:
            self._deliver(stray + "\n")
        if self._lines is not None:
            self._lines.add("\n")
        return _AFTER_CALL

    def _call(self) -> State:
        """Between two tags of the frame; other text waits for the call's end."""
        cursor = self._cursor
        text, start = cursor.text, cursor.at
        if text[start] != "<":
            end = text.find("<", start)
            cursor.at = end if end >= 0 else len(text)
            self._stray.append(text[start : cursor.at])
            return _CALL
        if (key := cursor.named_tag(PARAMETER_PREFIX)) is not None:
            return self._begin_parameter(key)
        if cursor.literal(FUNCTION_END):
            state = self._end_call()
            self._tool_call_end_due = True
            return state
        if cursor.literal(TOOL_CALL_END):
            self.forgiven_tag_count += 1
            return self._end_call()
        if cursor.literal(PARAMETER_END):
            return _CALL
        if self._think_tags and not self._answered and cursor.literal(THINK_END):
            return _CALL
        if (name := self._call_opening()) is not None:
            if name in self._tool_names:
                self.forgiven_tag_count += 1
                self._end_call()
                return self._begin_call(name)
            cursor.at = start
        self._stray.append("<")
        cursor.at = start + 1
        return _CALL

    def _begin_parameter(self, tag_name: str) -> State:
        key, value = self._split_key(tag_name)
        self._given.add(key)
        self._blocks.clear()
        self._emit(EventType.PARAMETER, key)
        if not value:
            return _VALUE_OPENING
        # The tag's rest is the value's beginning, so no newline is frame.
        self._emit(EventType.VALUE, value)
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
        self._cursor.literal("\n")
        return _VALUE_START

    def _value_start(self) -> State | None:
        """The first character of a value: a line begins here."""
        return self._read_value(at_line_start=True)

    def _value(self) -> State | None:
        return self._read_value(at_line_start=False)

    def _read_value(self, at_line_start: bool) -> State | None:
        """Read the value's text up to its end, or to a tag that may be it."""
        cursor = self._cursor
        start = cursor.at
        end, ends = self._find_value_end(at_line_start)
        if end > start:
            self._emit(EventType.VALUE, cursor.text[start:end])
            self._state = _VALUE
        if ends:
            self._emit(EventType.VALUE_END)
            return self._after_value
        cursor.at = end
        return None

    def _find_value_end(self, at_line_start: bool) -> tuple[int, bool]:
        """Find how far the text is the value's, and whether a tag ends it there.

        Where it ends the cursor is where the frame goes on.
        """
        cursor = self._cursor
        text, start = cursor.text, cursor.at
        tags = _LAST_VALUE_TAGS if cursor.final else _VALUE_TAGS
        ends = False
        tag = text.find("<", start)
        while tag >= 0:
            if text.startswith(tags, tag):
                cursor.at = tag
                on_new_line = text[tag - 1] == "\n" if tag > start else at_line_start
                try:
                    ends = self._ends_value(on_new_line)
                except NeedMore:
                    break
                if ends:
                    break
                tag = text.find("<", cursor.at)
            elif len(text) - tag < 4 and text[tag:] in _CUT_TAGS:
                break
            else:
                tag = text.find("<", tag + 1)
        else:
            tag = len(text)
        # One newline before the closing tag is frame.
        if tag > start and text[tag - 1] == "\n":
            tag -= 1
        return tag, ends

    def _ends_value(self, at_line_start: bool) -> bool:
        """Decide on a tag inside the value.

        Returns:
            Whether it ends the value.  Then the cursor is where the frame goes
            on, else behind what is literal.

        """
        cursor = self._cursor
        tag = cursor.at
        if cursor.text[tag + 1] != "/":
            return self._opening_ends_value(at_line_start)
        block = self._blocks[-1] if self._blocks else None
        if cursor.literal(PARAMETER_END):
            goes_on = self._nothing_follows if block else self._frame_goes_on
            ends = cursor.lookahead(goes_on, when_cut=True)
            if block and not ends:
                block.in_value = cursor.skip(self._parameter_opening)
            return ends
        if block:
            if cursor.skip(lambda: cursor.literal(FUNCTION_END)):
                self._close_block(block, at_line_start)
                return False
        elif cursor.literal(FUNCTION_END):
            if cursor.lookahead(self._function_ends, when_cut=True):
                return self._forgive(tag)
            return False
        elif cursor.literal(TOOL_CALL_END):
            if cursor.lookahead(self._call_follows, when_cut=True):
                return self._forgive(tag)
            return False
        cursor.at = tag + 1
        return False

    def _opening_ends_value(self, at_line_start: bool) -> bool:
        """Decide on an opening tag inside the value, as :meth:`_ends_value`."""
        cursor = self._cursor
        text, tag = cursor.text, cursor.at
        if at_line_start and text.startswith("<pa", tag):
            if not self._blocks and self._missing_parameter():
                return self._forgive(tag)
        elif at_line_start and cursor.skip(self._block_opening):
            in_value = cursor.skip(self._parameter_opening)
            self._blocks.append(_Block(text.startswith("<to", tag), in_value))
            return False
        cursor.at = tag + 1
        return False

    def _forgive(self, at: int) -> bool:
        """End the value, whose closing tag is missing, right before *at*."""
        self.forgiven_tag_count += 1
        self._cursor.at = at
        return True

    # Each of these looks ahead from a closing tag; the output's end counts as
    # what they look for.

    def _frame_goes_on(self) -> bool:
        """Match what follows a parameter's closing tag."""
        cursor = self._cursor
        return cursor.gap() and (
            cursor.literal(FUNCTION_END)
            or cursor.named_tag(PARAMETER_PREFIX) is not None
            or (cursor.literal(TOOL_CALL_END) and self._call_follows())
        )

    def _nothing_follows(self) -> bool:
        """Match ``</function>``, maybe ``</tool_call>``, the output's end."""
        cursor = self._cursor
        ends = cursor.gap() and cursor.literal(FUNCTION_END) and cursor.gap()
        if ends and cursor.literal(TOOL_CALL_END):
            cursor.gap()
        return False  # something follows, or a gap would have raised NeedMore

    def _function_ends(self) -> bool:
        """Match maybe ``</tool_call>``, then the opening of a call."""
        cursor = self._cursor
        if not cursor.gap():
            return False
        cursor.literal(TOOL_CALL_END)
        return self._call_follows()

    def _call_follows(self) -> bool:
        """Match the opening of a call to a tool of the request."""
        return self._cursor.gap() and self._call_opening() in self._tool_names

    def _missing_parameter(self) -> bool:
        """Match ``<parameter=KEY>`` of a declared key that is not given yet."""
        cursor = self._cursor
        start = cursor.at
        try:
            name = cursor.named_tag(PARAMETER_PREFIX)
        except NeedMore:
            # Held back only while it may still be such a key.
            cut = cursor.text[start + len(PARAMETER_PREFIX) :]
            head = cut.lstrip(" \t\r\"'")
            key = trim_name(cut.partition("=")[0])
            if any(
                (name.startswith(head) or name == key) and name not in self._given
                for name in self._declared
            ):
                raise
            return False
        if name is None:
            return False
        key = self._split_key(name)[0]
        return key in self._declared and key not in self._given

    def _block_opening(self) -> bool:
        """Match the opening of a block that the value quotes."""
        cursor = self._cursor
        if cursor.literal(TOOL_CALL_START) and not cursor.gap():
            return False
        return cursor.named_tag(FUNCTION_PREFIX) is not None

    def _parameter_opening(self) -> bool:
        """Match the beginning of a parameter's tag behind another of its frame."""
        return self._cursor.gap() and self._cursor.literal(PARAMETER_PREFIX)

    def _close_block(self, block: _Block, at_line_start: bool) -> None:
        """Close a quoted block, its own ``</tool_call>`` included.

        The cursor is behind ``</function>``, which is text of the block's own
        value if it stands within a line of it.
        """
        cursor = self._cursor
        is_whole = block.in_tool_call and cursor.skip(
            lambda: cursor.gap() and cursor.literal(TOOL_CALL_END)
        )
        if is_whole or at_line_start or not block.in_value:
            self._blocks.pop()

    # ── Calls to undeclared functions ─────────────────────────────────

    def _may_be_undeclared(self, at: int) -> bool:
        """Whether a call to an undeclared function may begin at *at*."""
        return (
            self._lines is not None
            and self._cursor.text.startswith(TOOL_CALL_START, at)
            and self._lines.may_begin_call()
        )

    def _begin_undeclared(self, name: str, at: int) -> State:
        """Read a block whose opening tags begin at *at*; the cursor is behind."""
        if self._undeclared is None:
            self._undeclared = _UndeclaredCalls(at)
            self._events = self._undeclared.events
        return self._open_frame(name, _UNDECLARED_CALL)

    def _undeclared_call(self) -> State:
        """Between two tags of such a call's frame, which has to be complete."""
        cursor = self._cursor
        if cursor.gap():
            if (key := cursor.named_tag(PARAMETER_PREFIX)) is not None:
                return self._begin_parameter(key)
            if (
                cursor.literal(FUNCTION_END)
                and cursor.gap()
                and cursor.literal(TOOL_CALL_END)
            ):
                self._emit(EventType.CALL_END)
                return _AFTER_UNDECLARED_CALL
        return self._quote_undeclared()

    def _after_undeclared_call(self) -> State:
        """Behind such a call's block, which what follows makes a call or text."""
        cursor = self._cursor
        if cursor.skip_space():
            return _AFTER_UNDECLARED_CALL
        start = cursor.at
        name = self._call_opening()
        if name is not None and name in self._tool_names:
            self._accept_undeclared()
            return self._begin_call(name)
        if name is not None and cursor.text.startswith(TOOL_CALL_START, start):
            return self._begin_undeclared(name, start)
        cursor.at = start
        return self._quote_undeclared()

    def _end_undeclared(self) -> None:
        """Decide on the blocks at the output's end."""
        cursor = self._cursor
        if self._state is _AFTER_UNDECLARED_CALL and not cursor.text:
            self._accept_undeclared()
            self._state = _AFTER_CALL
        else:
            cursor.at = len(cursor.text)
            self._state = self._quote_undeclared()

    def _accept_undeclared(self) -> None:
        """The blocks are calls."""
        undeclared = self._stop_undeclared()
        if not self._answered:
            self._space.clear()
        self._tool_call_end_due = False
        self._events += undeclared.events
        for event, _ in undeclared.events:
            self.undeclared_call_count += event is EventType.CALL

    def _quote_undeclared(self) -> State:
        """The blocks are text, up to where the cursor is."""
        cursor = self._cursor
        undeclared = self._stop_undeclared()
        last = cursor.text[undeclared.start : cursor.at]
        self._deliver("".join([*undeclared.taken, last]))
        return _ANSWER

    def _stop_undeclared(self) -> _UndeclaredCalls:
        undeclared = self._undeclared
        assert undeclared is not None  # only states of such calls come here
        self._undeclared = None
        self._events = self._delivered
        self._state = _ANSWER
        return undeclared


_THINK_OPENING: State = QwenToolReader._think_opening
_REASONING: State = QwenToolReader._reasoning
_ANSWER: State = QwenToolReader._answer
_AFTER_CALL: State = QwenToolReader._after_call
_CALL: State = QwenToolReader._call
_VALUE_OPENING: State = QwenToolReader._value_opening
_VALUE_START: State = QwenToolReader._value_start
_VALUE: State = QwenToolReader._value
_UNDECLARED_CALL: State = QwenToolReader._undeclared_call
_AFTER_UNDECLARED_CALL: State = QwenToolReader._after_undeclared_call
_CALL_STATES = (_CALL, _VALUE_OPENING, _VALUE_START, _VALUE)
