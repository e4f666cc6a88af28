# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The Qwen3-Coder tool call at hand, and calls that are held."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .qwen_tool_answer import EventType, HeldCalls, Output, Position, State
from .qwen_tool_bounds import MAX_REREADS
from .qwen_tool_objects import (
    JsonEnd,
    read_garbled_call,
    read_json_call,
    says_nothing,
)
from .qwen_tool_tokens import (
    CALL_ENDS,
    OPENINGS,
    TOOL_CALL_ENDS,
    Kind,
    Rules,
    Token,
    Tokens,
    Tools,
    always,
    declared_name,
    is_beside,
    rule_of,
    split_gap,
    starts_line,
    trim_name,
)


class Call:
    """The call at hand: what its tool declares, and what it has given.

    Attributes:
        declared: Its function's parameters.
        given: Those that the call has.
        in_crlf: Whether each line of the frame ends so; None before the first.
        quoted: What led from a closing sequence to a call in earlier values.

    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._name = ""
        self._required: Sequence[str] = ()
        self._first_missing = 0  # of these; those before it were given
        self.declared: Collection[str] = ()
        self.given: set[str] = set()
        self.in_crlf: bool | None = None
        self.quoted: set[str] = set()

    def open(self, token: Token) -> None:
        """Begin the call that the opening names."""
        self._name = name = token.name
        self.declared = self._tools.declared(name)
        self._required = self._tools.required(name)
        self._first_missing = 0
        self.given.clear()
        self.in_crlf = None
        self.quoted.clear()
        self.read_frame(token.text)

    def give(self, token: Token) -> tuple[str, str]:
        """Key and first text of the value of the parameter that the tag opens."""
        self.read_frame(token.gap)
        key, value = self.split_key(token)
        self.given.add(key)
        return key, value

    def split_key(self, token: Token) -> tuple[str, str]:
        """Split ``KEY=VALUE``, where only KEY is declared, as models mangle it."""
        if token.name not in self.declared:
            head, _, value = token.text[:-1].partition("=")[2].partition("=")
            if (key := trim_name(head)) in self.declared:
                return key, value
        return declared_name(token.name, self.declared), ""

    def key_of(self, token: Token) -> str:
        return self.split_key(token)[0]

    def is_due(self, key: str) -> bool:
        """Whether the call's tool declares the key, and it was not given."""
        return key in self.declared and key not in self.given

    def lacks(self, token: Token) -> bool:
        """Whether the token opens a parameter that is due."""
        is_tag = token.kind in (Kind.PARAMETER, Kind.OTHER_PARAMETER)
        return is_tag and self.is_due(self.key_of(token))

    def is_missing(self) -> bool:
        """Whether a required key was not given."""
        for key in itertools.islice(self._required, self._first_missing, None):
            if key not in self.given:
                return True
            self._first_missing += 1
        return False

    def takes_json(self, key: str) -> bool:
        is_declared = self._name in self._tools.names
        return is_declared and self._tools.takes_json(self._name, key)

    def read_frame(self, text: str) -> None:
        """Look how the frame's lines end."""
        if ends := text.count("\n"):
            in_crlf = self.in_crlf is not False and text.count("\r\n") == ends
            self.in_crlf = in_crlf

    def split_gap(self, gap: str, starts_line: bool = False) -> tuple[str, str | None]:
        """As the function does; the frame's newline may be a CRLF."""
        value, indent = split_gap(gap, starts_line)
        if self.in_crlf and indent is not None:
            value = value.removesuffix("\r")
        return value, indent


class _Behind(NamedTuple):
    """What stands behind a held call."""

    calls: Calls
    held: HeldCalls
    token: Token

    def is_end(self) -> bool:
        return self.token.kind == Kind.END and not self.token.text

    def is_given_twice(self) -> bool:
        return self.token.kind in CALL_ENDS or self.token.kind == Kind.OTHER_END

    def is_beside(self) -> bool:
        """Whether a call follows directly,"""
        return self.token.kind == Kind.OPENING and is_beside(self.token.gap)

    def is_next(self) -> bool:
        """And to a declared tool."""
        return self.is_beside() and self.token.name in self.calls.tools.names

    def is_bare(self) -> bool:
        """Whether the call is, and no tag says that it is more than an example."""
        if self.held.position is Position.PROSE and self.is_next():
            return self.calls.lack_tags(self.held)
        return self.held.position is Position.BARE

    def counts(self) -> bool:
        """Whether the call that follows makes the held one a call."""
        is_other = self.held.position is Position.OTHER and not self.held.in_frame
        if self.held.in_reasoning or is_other:
            return False
        is_opened = self.token.in_tool_call or not self.is_bare()
        return self.is_next() and is_opened

    def ends_reasoning(self) -> bool:
        held = self.held
        is_tag = held.in_reasoning and self.token.kind == Kind.THINK_END
        return is_tag and not held.reasoning_ended

    def is_text(self) -> bool:
        """Whether anything but a further held call follows."""
        held, token, calls = self.held, self.token, self.calls
        if self.is_bare():
            return not self.is_next()
        if held.reasoning_ended or held.position is Position.PROSE:
            return True
        if held.position is Position.OTHER and not held.in_reasoning:
            lines = held.lines_to(calls.tokens, calls.tokens.at - 1)
            is_declared = token.name in calls.tools.names
            if is_declared and lines.position() is Position.PLAIN:
                return True
        return not calls.may_be_held(token)


class Calls:
    """Calls that count at once, and those that are held.

    Attributes:
        rereads: How often the output ended in what is not complete.

    """

    def __init__(self, tokens: Tokens, output: Output, call: Call, tools: Tools):
        self.tokens = tokens
        self.tools = tools
        self.rereads = 0
        self._output = output
        self._call = call
        self._json = JsonEnd()  # of the held call's object, or of one in its body
        self._in_garbled = False  # a parameter of a garbled call is open

    def open(self, token: Token) -> str:
        """Open the frame of a call."""
        if token.kind != Kind.OPENING:
            self._json, self._in_garbled = JsonEnd(), False
            is_json = token.kind == Kind.JSON_OPENING
            return State.JSON_CALL if is_json else State.GARBLED_CALL
        self._call.open(token)
        self._output.emit(EventType.CALL, token.name)
        return State.CALL

    def hold(self, token: Token, position: Position) -> str:
        """Hold the call that the token opens."""
        at, lines = self.tokens.at, self._output.lines
        in_reasoning = self.tokens.in_reasoning
        # A call that is JSON names a declared tool, or is text when its object ends.
        is_declared = token.kind == Kind.JSON_OPENING or (
            token.name in self.tools.names and token.kind == Kind.OPENING
        )
        in_frame = is_declared and not in_reasoning and lines.in_frame()
        where = at - 1, at, in_reasoning, position, in_frame
        held = HeldCalls(lines.copy(), at - 1, at, *where)
        self._output.hold_calls(held)
        return self.open(token)

    def may_be_held(self, token: Token) -> bool:
        """Whether the token opens a call in any other position."""
        if token.kind not in (Kind.OPENING, Kind.GARBLED_OPENING):
            return token.kind == Kind.JSON_OPENING
        is_declared = token.name in self.tools.names
        if token.in_tool_call:
            return is_declared or self.tools.undeclared_calls
        return is_declared and not self.tokens.in_reasoning

    @property
    def _held(self) -> HeldCalls:
        held = self._output.calls
        assert held is not None
        return held

    @property
    def end_at_once(self) -> bool:
        """Whether the call ends at its first closing sequence, as held ones do."""
        held = self._output.calls
        return held is not None and held.position is not Position.BARE

    def end_by(self, following: str) -> bool:
        """Whether what follows forgives a missing ``</function>``."""
        held = self._output.calls
        is_plain = held is None or held.position in (Position.PROSE, Position.BARE)
        return following == Kind.OPENING or (following == Kind.END and is_plain)

    def wait(self) -> bool:
        """Whether a required key may still come, which a call does not decide."""
        return self.rereads <= MAX_REREADS and self._call.is_missing()

    def lack_tags(self, held: HeldCalls) -> bool:
        """Whether the last held call has neither ``<tool_call>`` nor its end."""
        opening, last = self.tokens[held.opening - 1], self.tokens[held.back - 1]
        return not opening.in_tool_call and last.kind not in TOOL_CALL_ENDS

    def end_call(self) -> str:
        output = self._output
        output.emit(EventType.CALL_END)
        if (held := output.calls) is not None:
            return self.reach(held)
        at = self.tokens.at
        last = self.tokens[at - 1].kind if at else None
        output.outcomes["forgiven"] += last != Kind.TOOL_CALL_END
        output.lines.end_call()
        return State.AFTER_CALL

    def reach(self, held: HeldCalls) -> str:
        """The held call ends with the token that was read last."""
        held.back = self.tokens.at
        if held.position is Position.BARE and not self.lack_tags(held):
            return self.accept(held)
        return State.AFTER_HELD_CALL

    def accept_lines(self, at: int) -> bool:
        """Accept a call behind prose if its line ends before the token at *at*."""
        held, output = self._output.calls, self._output
        if held is None or held.position is not Position.PROSE:
            return False
        self.tokens.peek(at)
        if held.lines_to(self.tokens, at).ended == output.lines.ended:
            return False
        if self.lack_tags(held):
            held.position = Position.BARE
            return False
        self.accept(held)
        return True

    def accept(self, held: HeldCalls) -> str:
        """The held calls count."""
        output = self._output
        output.decide(held, is_right=False)
        if held.in_reasoning:
            output.end_reasoning()
        output.close_gap(self.tokens[held.start].gap)
        calls = [event for event, _ in held.events].count(EventType.CALL)
        output.outcomes["held"] += calls
        for event in held.events:
            output.emit(*event)
        output.lines.end_call()
        return State.AFTER_CALL

    def quote(self, end: int) -> str:
        """The held calls are text, up to the token at *end*; read on there."""
        held, tokens = self._held, self.tokens
        self._output.outcomes["text"] += 1
        self._output.decide(held, is_right=False)
        tokens.at = end
        gap, text = tokens[held.start].gap, tokens.text(held.start, end)
        return self._output.deliver(gap, text[len(gap) :])

    def reread(self) -> str:
        """The output ends within a held call: read again behind its opening."""
        is_last = self.rereads > MAX_REREADS
        return self.quote(self.tokens.at - 1 if is_last else self._held.opening)

    def is_over(self, token: Token) -> bool:
        """Whether the fence or reasoning ends in which an unfinished call is held."""
        held = self._output.calls
        if held is None:
            return False
        is_over = held.in_reasoning and token.kind == Kind.THINK_END
        if is_over or not self._output.lines.fence:
            return is_over
        lines = held.lines_to(self.tokens, self.tokens.at - 1)
        return lines.closed > self._output.lines.closed

    def after_held_call(self, token: Token) -> str:
        """Behind a held call, which what follows makes a call or text."""
        held = self._held
        if held.position is not Position.OTHER and is_beside(token.gap):
            token = self.tokens.opening(self.tokens.at - 1)
        behind = _Behind(self, held, token)
        return rule_of(_HELD, behind)(self, behind)

    def go_on(self, behind: _Behind) -> str:
        """Read the token behind the calls, which count."""
        self.tokens.at -= 1
        return self.accept(behind.held)

    def end_reasoning(self, behind: _Behind) -> str:
        behind.held.reasoning_ended = True
        return State.AFTER_HELD_CALL

    def hold_next(self, behind: _Behind) -> str:
        held = behind.held
        if behind.is_bare():
            held.position = Position.BARE
        elif held.position is Position.PLAIN and not held.in_reasoning:
            is_opening = behind.token.kind in (Kind.OPENING, Kind.GARBLED_OPENING)
            is_plain = is_opening and is_beside(behind.token.gap)
            held.position = Position.PLAIN if is_plain else Position.OTHER
        held.opening = self.tokens.at
        return self.open(behind.token)

    def json_call(self, token: Token) -> str:
        """A call that is written as a JSON object."""
        if token.kind == Kind.FUNCTION and not self._json.in_string:
            token = self.tokens.opening(self.tokens.at - 1)
        if (state := self._leave(token)) is not None:
            return state
        if token.kind != Kind.TOOL_CALL_END or self._json.in_string:
            self._json.add(token.gap + token.text)
            is_alone = not self._json.behind.strip()
            return State.JSON_CALL if is_alone else self.quote(self.tokens.at)
        call = read_json_call(self._body(self._held))
        if call is None or call[0] not in self.tools.names:
            return self.quote(self.tokens.at)
        return self._end_read_call(*call)

    def garbled_call(self, token: Token) -> str:
        """A call whose tags are garbled."""
        if (state := self._leave(token)) is not None:
            return state
        held, json, tokens = self._held, self._json, self.tokens
        if token.kind not in CALL_ENDS or json.in_string:
            if token.kind in (Kind.PARAMETER, Kind.PARAMETER_END):
                self._in_garbled = token.kind == Kind.PARAMETER
            is_first = held.opening == tokens.at - 1
            text = token.text.removeprefix(">") if is_first else token.text
            if is_first and not text.lstrip().startswith("{"):
                json.is_whole = True  # no object
            if not json.is_whole:
                json.add(text)
            return State.GARBLED_CALL
        name, body = tokens[held.opening - 1].name, self._body(held)
        declared = self.tools.declared(name)
        values, is_all = read_garbled_call(body, declared)
        if name in self.tools.names and says_nothing(body, declared):
            is_all = True
        tokens.at = tokens.sequence_end(tokens.at - 1)
        if not is_all and all(key in values for key in self.tools.required(name)):
            # It would run without what could not be read.
            return self.quote(tokens.at)
        return self._end_read_call(name, values)

    def _leave(self, token: Token) -> str | None:
        """Leave a call that never ends, for it hides nothing."""
        if token.kind == Kind.END:
            self.rereads += 1
            return self.reread()
        in_string = self._json.in_string and not starts_line(token.gap)
        is_quoted = self._in_garbled or in_string
        is_opening = token.kind in OPENINGS and not is_quoted
        if is_opening and self._is_frame(token):
            return self._join(token)
        if is_opening or self.is_over(token):
            return self.quote(self.tokens.at - 1)
        return None

    def _is_frame(self, token: Token) -> bool:
        """Whether the text between ``<tool_call>`` and an opening is the frame's."""
        held, tokens = self._held, self.tokens
        is_first = tokens[held.start].kind == Kind.JSON_OPENING
        is_first = is_first and held.opening == held.start + 1
        is_own = token.kind == Kind.OPENING and token.name in self.tools.names
        is_own = is_own and not (token.in_tool_call or self._json.in_string)
        if not (is_first and is_own) or held.in_reasoning:
            return False
        text = tokens.short_text(held.opening, tokens.at - 1)
        is_plain = self._output.lines.position() is Position.PLAIN
        return text is not None and is_plain

    def _join(self, token: Token) -> str:
        """The call counts, from the ``<tool_call>`` that seemed to open another."""
        held, tokens = self._held, self.tokens
        self._output.decide(held, is_right=False)
        fields = {"kind": Kind.OPENING, "name": token.name}
        token = tokens.join(held.start, tokens.at, **fields)
        tokens.at = held.start + 1
        self._output.close_gap(token.gap)
        return self.open(token)

    def _body(self, held: HeldCalls) -> str:
        """The text of the held call so far."""
        return self.tokens.text(held.opening, self.tokens.at - 1)

    def _end_read_call(self, name: str, values: dict[str, str]) -> str:
        """End a call that was read at once."""
        emit = self._output.emit
        emit(EventType.CALL, name)
        for key, value in values.items():
            emit(EventType.PARAMETER, key)
            emit(EventType.VALUE, value)
            emit(EventType.VALUE_END)
        return self.end_call()


# What stands behind a held call, in the order of docs/format.md; the first that
# applies decides.
_HELD: Rules = (
    (_Behind.is_end, lambda calls, behind: calls.accept(behind.held)),
    (_Behind.is_given_twice, lambda calls, behind: calls.reach(behind.held)),
    (_Behind.counts, Calls.go_on),
    (_Behind.ends_reasoning, Calls.end_reasoning),
    (_Behind.is_text, lambda calls, behind: calls.quote(behind.held.back)),
    (always, Calls.hold_next),
)
