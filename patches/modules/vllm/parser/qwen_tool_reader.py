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

Each state is a method that reads a token and returns the next state::

    THINK_OPENING -> REASONING -> ANSWER | CALL
    ANSWER -> CALL | JSON_CALL | GARBLED_CALL | REASONING (before visible text)
    CALL -> VALUE_START -> VALUE -> CALL
    CALL, VALUE, JSON_CALL, GARBLED_CALL -> AFTER_CALL | AFTER_HELD_CALL
    AFTER_CALL -> ANSWER | CALL | JSON_CALL | GARBLED_CALL
    AFTER_HELD_CALL -> CALL | JSON_CALL | GARBLED_CALL | AFTER_CALL
    AFTER_HELD_CALL -> ANSWER, REASONING (the calls were text)

What decides is a table in the order of docs/format.md: here *where a call begins*,
in ``qwen_tool_calls`` what makes a held call count, in ``qwen_tool_value_end`` *where a
value ends*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from .qwen_tool_answer import Event, EventType, Output, Position, State
from .qwen_tool_calls import Call, Calls
from .qwen_tool_tokens import (
    CLOSING,
    LOOSE,
    OPENINGS,
    THINK_TAGS,
    TOOL_CALL_START,
    Kind,
    Lexer,
    NeedMore,
    Rules,
    Token,
    Tokens,
    Tools,
    always,
    rule_of,
)
from .qwen_tool_value_end import Value


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
        keeps_space: Whether white space between the answer and a call is the
            answer's; else it is frame.

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
        keeps_space: bool = False,
    ) -> None:
        self._tools = tools = Tools(
            tool_names, parameters_of, required_of, takes_json, undeclared_calls
        )
        self._constrained = constrained
        self._state = State.THINK_OPENING if reasoning else State.ANSWER
        self._lexer = Lexer(think_tags, tool_names)
        self._later: list[str] = []  # pieces that were not cut into tokens yet
        self._tokens = tokens = Tokens(tools, reasoning)
        self._output = output = Output(tokens, prefix, keeps_space)
        self.outcomes = output.outcomes
        call = Call(tools)
        self._calls = calls = Calls(tokens, output, call, tools)
        self._value = value = Value(tokens, output, call, calls)
        self._read_call = {
            State.AFTER_HELD_CALL: calls.after_held_call,
            State.JSON_CALL: calls.json_call,
            State.GARBLED_CALL: calls.garbled_call,
            State.CALL: value.between,
            State.VALUE_START: value.value_start,
            State.VALUE: value.value,
        }
        self._text = self._text_event()

    @property
    def in_call(self) -> bool:
        """Whether a call is open, counted or held."""
        rest = self._lexer.rest.rstrip()  # an opening waits for the tag behind it
        is_open = "<function=" in rest and rest.endswith(">")
        return is_open or self._state in _IN_CALL

    @property
    def in_reasoning(self) -> bool:
        return self._tokens.in_reasoning

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of the output."""
        # Most pieces only go on with the text before them, and decide nothing.
        if (event := self._text) == _HELD:
            if "<" not in text and not self._lexer.rest:
                self._later.append(text)
                return []
        elif event is not None:
            plain = self._lexer.plain(text)
            if isinstance(plain, str):
                if event != EventType.VALUE:
                    self._output.lines.add(plain)
                return [(event, plain)] if plain else []
            self._tokens += plain
            return self._read()
        tokens = self._lexer.feed("".join([*self._later, text]))
        self._later.clear()
        self._tokens += tokens
        return self._read() if tokens else []

    def finish(self, cut: bool = False, *, stopped: bool = False) -> list[Event]:
        """Decide what is held at the output's end.

        Args:
            cut: The output is cut: its end decides nothing.
            stopped: The closing tag that was fed last was a stop string, which
                cuts the output too unless it ends a call.

        """
        tokens, calls = self._tokens, self._calls
        if cut and tokens.at == len(tokens) and not self._later:
            self._drop_opening()
        tokens += self._lexer.feed("".join(self._later), final=True)
        in_value = self._state in (State.VALUE_START, State.VALUE)
        if cut or (stopped and in_value and not self._value.is_closed()):
            self._accept_lines()
            if (held := self._output.calls) is not None:
                end = held.back if held.reasoning_ended else len(tokens) - 1
                self._state = calls.quote(end)
            elif in_value or self._state == State.CALL:
                self._state = self._value.cut(tokens[tokens.at], self._state)
        return self._read()

    def _drop_opening(self) -> None:
        """Drop the opening of a call in which a cut output ends: it is frame."""
        rest = self._lexer.rest
        is_answer = self._state in (State.ANSWER, State.AFTER_CALL)
        is_opening = rest.startswith((TOOL_CALL_START, "<function="))
        if is_answer and is_opening and self._tools.names:
            gap = self._lexer.take_gap()
            if self._output.lines.copy(gap).position(rest) is Position.PLAIN:
                self._lexer.rest = ""
            else:
                self._lexer.add_gap(gap)

    def _read(self) -> list[Event]:
        """Read on, as far as the tokens can be decided."""
        tokens, output = self._tokens, self._output
        try:
            while tokens.at < len(tokens):
                if output.calls is not None:
                    self._accept_lines()
                tokens.at += 1
                token, state = tokens[tokens.at - 1], self._state
                if (read := self._read_call.get(state)) is not None:
                    self._state = read(token)
                else:
                    self._state = _IN_TEXT[state](self, token)
        except NeedMore:
            tokens.at -= 1
        if output.calls is None and output.end is None:
            del tokens[: tokens.at]
            tokens.at = 0
        self._text = self._text_event()
        return output.take()

    def _text_event(self) -> str | None:
        """The event of text that decides nothing here, if all before it is read."""
        state, output = self._state, self._output
        if self._tokens:
            is_read = self._tokens.at == len(self._tokens)
            return _HELD if is_read and output.end is not None else None
        if state == State.REASONING and not output.spaces:
            return EventType.REASONING
        if state == State.ANSWER and output.answered:
            return EventType.CONTENT
        return EventType.VALUE if state == State.VALUE else None

    def _accept_lines(self) -> None:
        """Accept a call behind prose if its line ended."""
        is_accepted = self._calls.accept_lines(self._tokens.at)
        if is_accepted and self._state == State.AFTER_HELD_CALL:
            self._state = State.AFTER_CALL

    def _think_opening(self, token: Token) -> str:
        """The beginning of the reasoning, which may be ``<think>``."""
        if token.kind == Kind.THINK_START and not token.gap:
            return State.REASONING
        return self._reasoning(token)

    def _reasoning(self, token: Token) -> str:
        output, token = self._output, self._joined(token)
        if token.kind == Kind.THINK_END:
            output.deliver(token.gap, "")
            return output.end_reasoning()
        output.lines.add(token.gap)
        if self._constrained and self._is_required_call(token):
            output.end_reasoning()
            return self._answer(token)
        return self._call_or_text(token)

    def _is_required_call(self, token: Token) -> bool:
        """Whether the grammar of a required call begins at a token."""
        is_opening = token.kind == Kind.OPENING and token.name in self._tools.names
        begins = is_opening and token.text.startswith(TOOL_CALL_START)
        return begins and self._output.lines.begins

    def _answer(self, token: Token) -> str:
        """The answer; until it has visible text think tags are frame."""
        output, token = self._output, self._joined(token)
        output.lines.add(token.gap)
        if token.kind in THINK_TAGS and not output.answered:
            output.spaces.append(token.gap)
            self._tokens.in_reasoning = begins = token.kind == Kind.THINK_START
            return State.REASONING if begins else State.ANSWER
        return self._call_or_text(token)

    def _after_call(self, token: Token) -> str:
        """Behind a call, where closing tags are given twice."""
        output, token = self._output, self._joined(token)
        output.lines.add(token.gap)
        kind = token.kind
        is_dropped = kind == Kind.THINK_END and not output.answered
        is_dropped = is_dropped or kind in CLOSING or kind == Kind.OTHER_END
        if is_dropped or (kind == Kind.END and not token.text):
            output.close_gap(token.gap)
            return State.AFTER_CALL
        return self._call_or_text(token)

    def _joined(self, token: Token) -> Token:
        """The token, joined to the opening that it begins; in any other position
        than a plain one, or behind its line's prose, to what stands behind its name.
        """
        if token.kind in LOOSE and self._tools.names:
            where = self._output.lines.copy(token.gap).position(token.text)
            if where is not Position.OTHER or token.kind == Kind.GARBLED_OPENING:
                in_prose = where is not Position.PLAIN
                return self._tokens.opening(self._tokens.at - 1, in_prose=in_prose)
        return token

    def _call_or_text(self, token: Token) -> str:
        """A call, if the token opens one, or text."""
        if token.kind not in OPENINGS or not self._tools.names:
            return self._output.deliver(token.gap, token.text)
        opening = _Opening(token, self._position(token), self._calls)
        return rule_of(_BEGINNING, opening)(self, opening)

    def _position(self, token: Token) -> Position | None:
        """Where the token opens a call; None if a garbled one is none there."""
        is_declared = token.name in self._tools.names
        position = self._output.lines.position
        if token.kind == Kind.GARBLED_OPENING:
            is_plain = position(token.text) is Position.PLAIN
            return Position.PLAIN if is_plain else None
        if token.kind != Kind.OPENING or self._tokens.in_reasoning:
            return Position.OTHER
        where = position(token.text if is_declared else "")
        if where is Position.PLAIN and is_declared and not token.in_tool_call:
            return Position.BARE
        is_example = where is Position.PROSE and not is_declared
        return Position.OTHER if is_example else where

    def _count(self, opening: _Opening) -> str:
        """The call counts at once."""
        self._output.close_gap(opening.token.gap)
        return self._calls.open(opening.token)

    def _hold(self, opening: _Opening) -> str:
        assert opening.position is not None
        return self._calls.hold(opening.token, opening.position)

    def _quote(self, opening: _Opening) -> str:
        return self._output.deliver(opening.token.gap, opening.token.text)


class _Opening(NamedTuple):
    """An opening in the answer or the reasoning, and what decides on it."""

    token: Token
    position: Position | None
    calls: Calls

    def counts(self) -> bool:
        is_declared = self.token.name in self.calls.tools.names
        is_plain = self.position is Position.PLAIN
        return is_plain and is_declared and self.token.kind == Kind.OPENING

    def is_held(self) -> bool:
        if self.position in (Position.BARE, Position.PROSE):
            return True
        return self.position is not None and self.calls.may_be_held(self.token)


# Where a call begins, in the order of docs/format.md; the first that applies decides.
_BEGINNING: Rules = (
    # Plain position.
    (_Opening.counts, QwenToolReader._count),
    # Bare, behind its line's prose, or in any other position.
    (_Opening.is_held, QwenToolReader._hold),
    # Else it is text.
    (always, QwenToolReader._quote),
)
_HELD = "HELD"  # no event: the text waits with what may be a value's end
_IN_TEXT = {
    State.THINK_OPENING: QwenToolReader._think_opening,
    State.REASONING: QwenToolReader._reasoning,
    State.ANSWER: QwenToolReader._answer,
    State.AFTER_CALL: QwenToolReader._after_call,
}
_IN_CALL = (
    State.CALL,
    State.VALUE_START,
    State.VALUE,
    State.JSON_CALL,
    State.GARBLED_CALL,
)
