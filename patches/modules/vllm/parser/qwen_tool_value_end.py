# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Where a value of a Qwen3-Coder tool call ends.

The table of a tag's kind decides on it: the rules of docs/format.md, in its order.
A rule's condition looks at the tag, and its action acts.
"""

from __future__ import annotations

from dataclasses import dataclass

from .qwen_tool_answer import EventType, HeldEnd, Lines, Output, Position, State, Weight
from .qwen_tool_bounds import MAX_GAP, MAX_JSON, MAX_PARAMETER_ENDS
from .qwen_tool_calls import Call, Calls
from .qwen_tool_objects import JsonEnd
from .qwen_tool_tokens import (
    CALL_ENDS,
    CLOSING,
    OPENINGS,
    TEXTS,
    TOOL_CALL_END,
    TOOL_CALL_ENDS,
    Kind,
    Rules,
    Token,
    Tokens,
    always,
    begins_with_word,
    is_beside,
    misspelled_key,
    rule_of,
    split_gap,
    starts_line,
)
from .qwen_tool_values import is_json


@dataclass(slots=True)
class _Quote:
    """A block, or a parameter alone, that a value quotes."""

    name: str | None  # its function; None for a parameter alone
    in_tool_call: bool = False  # <tool_call> began it
    in_parameter: bool = False  # one of its own parameters is open
    in_line: bool = False  # and began in the middle of a line


class _Tag:
    """A tag in a value, and what decides on it.

    Attributes:
        token: The tag.
        gap: White space before it that is the value's, if the tag ends the value.
        indent: Its indentation, if it is first on its line.
        mirrors: It is spelled as the parameter's opening tag.
        behind: Index of the token behind it, and behind those that repeat it.
        end: Index behind the closing sequence that it begins, if it does.
        following: What stands behind the tag, or the sequence.
        open: How many quotes are open at the tag.
        quote: The last of these.
        held: What is held to be the value's end.

    """

    def __init__(self, value: Value, token: Token, starts_line: bool) -> None:
        self.value, self.call, self.token = value, value.call, token
        self.gap, self.indent = value.call.split_gap(token.gap, starts_line)
        self.mirrors = value.indent is None or value.indent == self.indent
        self.behind = value.tokens.at
        self.end = 0
        self.following = ""
        self.open = len(value.quotes)
        self.quote = value.quotes[-1] if value.quotes else None
        self.held = value.output.end

    def look(self) -> None:
        """Look whether a closing sequence follows,"""

    def look_behind(self) -> None:
        """And what stands behind that."""

    def in_block(self) -> bool:
        return self.quote is not None and self.quote.name is not None

    def opens_quote(self) -> bool:
        """Whether it is first on its line, outside of anything quoted."""
        return self.indent is not None and self.quote is None

    def is_alone(self) -> bool:
        """Whether nothing is quoted or held where the tag stands."""
        return self.quote is None and self.held is None


class _ParameterEnd(_Tag):
    """A ``</parameter>``.

    Attributes:
        yields: A second one follows, which alone is spelled as the opening tag.
        claims: A quoted parameter claims the tag.
        drops: A misspelled opening of a parameter follows, which is dropped.
        key: That of the parameter that follows, if one does.
        takes: A quoted block may have it.
        weight: What speaks for the closing sequence.
        is_last: The end follows the sequence.
        is_call: A call does, and the call lacks no parameter.

    """

    def look(self) -> None:
        value, tokens = self.value, self.value.tokens
        self.open = value.open_quotes(self.indent)
        self.quote = value.quotes[self.open - 1] if self.open else None
        self.claims = self.quote is not None and self.quote.in_parameter
        self.yields = self.drops = False
        kind, end = tokens.following(self.behind)
        for _ in range(0 if self.claims else MAX_PARAMETER_ENDS - 1):
            if kind != Kind.PARAMETER_END:
                break
            indent = split_gap(tokens[self.behind].gap)[1]
            is_second = not self.mirrors and value.mirrors(indent)
            self.yields = value.starts or is_second
            if self.yields:
                break
            self.behind = end
            kind, end = tokens.following(end)
        if kind in TEXTS and self.quote is None:
            kind, end = self._look_behind_text()
        self.following, self.key, self.takes = kind, "", False
        self.end = end if kind == Kind.FUNCTION_END else 0
        if kind == Kind.PARAMETER or self.call.lacks(tokens[self.behind]):
            self._look_at(self.behind)

    def _look_behind_text(self) -> tuple[str, int]:
        """What follows the text behind the tag, if that is the frame's; the end."""
        calls, tokens, at = self.value.calls, self.value.tokens, self.behind
        may_be_due = len(self.call.given) < len(self.call.declared)
        tag = tokens.behind_text(at, in_prose=self.mirrors or may_be_due)
        if tag == at or self.value.output.lines.ends_fence(tokens.text(at, tag)):
            return Kind.TEXT, at
        kind, end = tokens.following(tag)
        begins_line = starts_line(tokens[tag].gap)
        in_prose = not self.mirrors and begins_with_word(tokens[at])
        is_frame = False
        if self.call.lacks(tokens[tag]):
            is_frame = begins_line or not in_prose
        elif kind == Kind.FUNCTION_END and not in_prose:
            behind, more = tokens.following(end)
            kinds = tokens[end - 1].kind, behind, tokens.peek(more).kind
            if kinds == (Kind.FUNCTION_END, Kind.PARAMETER_END, Kind.TOOL_CALL_END):
                end = more + 1  # </parameter> is given twice, with another between
            is_whole = tokens[end - 1].kind in TOOL_CALL_ENDS
            is_whole = is_whole or (self.mirrors and begins_line)
            is_call = behind == Kind.OPENING and not calls.wait()
            # A line may name the tags that end a call, and the value go on.
            is_named = not self.mirrors and self.indent is None and not begins_line
            is_frame = behind == Kind.END or ((is_whole or is_call) and not is_named)
        if not is_frame:
            if self.mirrors and self.held is None:
                self.behind = self.value.behind_misspelled(at) or at
                self.drops = self.behind > at
            return Kind.TEXT, at
        self.behind = tag
        return kind, end

    def _look_at(self, behind: int) -> None:
        """The tag is followed by the parameter that this token opens."""
        self.behind, self.end, self.following = behind, 0, Kind.PARAMETER
        self.key = self.call.key_of(self.value.tokens[behind])
        self.takes = self._takes(self.key)

    def _takes(self, key: str) -> bool:
        if self.quote is None or (name := self.quote.name) is None:
            return False
        tools = self.value.calls.tools
        return name not in tools.names or key in tools.parameters_of(name)

    def look_behind(self) -> None:
        self.weight = Weight.MIRRORED if self.mirrors else Weight.SPELLED
        self.is_last = self.is_call = False
        if self.end:
            tokens = self.value.tokens
            following = tokens.following(self.end)[0]
            if self.quote is None and self.call.lacks(tokens[self.end]):
                self._look_at(self.end)
                return
            self.is_last = following == Kind.END
            # Of a call that a tag of it misspells, <tool_call> is enough.
            is_call = following == Kind.OPENING or (
                following in (Kind.TOOL_CALL_START, *OPENINGS)
                and self.mirrors
                and tokens[self.end - 1].kind == Kind.TOOL_CALL_END
                and is_beside(tokens[self.end].gap)
            )
            self.is_call = is_call and not self.value.calls.wait()
        if self.claims and not self.is_last:
            self.weight = Weight.CLAIMED

    def is_due(self) -> bool:
        """Whether the call still lacks the parameter that follows."""
        is_due = bool(self.key) and self.call.is_due(self.key)
        return is_due and not (self.claims and self.takes)

    def is_free(self) -> bool:
        """Whether nothing is held."""
        return self.held is None and not self.value.calls.end_at_once

    def is_sequence(self) -> bool:
        """Whether it begins a closing sequence that no block claims."""
        is_claimed = self.claims and self.in_block()
        is_own = not is_claimed or (self.is_last and self.is_free())
        return self.end > 0 and is_own

    def is_decided(self) -> bool:
        """Whether what follows the sequence makes it the call's end,"""
        is_call = self.is_call and self.weight is not Weight.CLAIMED
        return is_call or self.is_last

    def ends_call(self) -> bool:
        """At once."""
        is_decided = self.held is None and self.is_decided()
        return is_decided or self.value.calls.end_at_once

    def repeats(self) -> bool:
        """Whether the sequence repeats the one that is held."""
        if (held := self.held) is None or held.back < self.value.tokens.at - 1:
            return False
        return held.weight >= self.weight

    def outweighs(self) -> bool:
        """Whether the sequence is rather the call's end than the one that is held."""
        is_weak = self.held is None or self.held.weight < Weight.MIRRORED
        return is_weak or self.weight is Weight.MIRRORED

    def closes_parameter(self) -> bool:
        """Whether it mirrors its opener before a parameter of the outer call."""
        is_outer = self.held is None or self.held.weight is Weight.PART
        return bool(self.key) and self.mirrors and not self.takes and is_outer

    def is_forgiven(self) -> bool:
        """Whether what follows forgives the call's missing closing tags."""
        return self.is_alone() and self.value.calls.end_by(self.following)

    def may_end_call(self) -> bool:
        """Whether it is the call's end if text and the end follow."""
        is_spelled = self.mirrors and self.value.indent is not None
        return self.is_alone() and self.is_free() and is_spelled


class _CallEnd(_Tag):
    """A ``</function>`` or ``</tool_call>`` without ``</parameter>``.

    Attributes:
        is_function: Whether it is a ``</function>``.
        is_empty: Whether it would end a value without a line of its own.

    """

    def look(self) -> None:
        self.is_function = self.token.kind == Kind.FUNCTION_END
        self.end = self.value.tokens.sequence_end(self.behind - 1)

    def look_behind(self) -> None:
        self.is_empty = False
        if self.is_alone():
            value, tokens = self.value, self.value.tokens
            self.following, end = tokens.following(self.end)
            starts = value.starts and value.indent is not None
            is_empty = starts and "\n" not in self.token.gap
            self.is_empty = is_empty and self.following != Kind.END
            if self.following == Kind.FUNCTION_END and not self.is_empty:
                self.following, self.end = tokens.following(end)[0], end
        elif self.quote is not None and self.in_block():
            # </tool_call> is a tag of a block that <tool_call> opened.
            self.end = self.end if self.quote.in_tool_call else self.behind

    def repeats(self) -> bool:
        """Whether it stands directly behind what is held."""
        is_behind = self.held is not None and self.held.back == self.behind - 1
        return is_behind and self.quote is None

    def closes_block(self) -> bool:
        """Whether it closes the quoted block where it stands."""
        if (quote := self.quote) is None or quote.name is None:
            return False
        is_whole = self.end > self.behind or self.indent is not None
        is_sure = self.is_function and is_whole
        is_own = self.is_function or quote.in_tool_call
        return is_own and (is_sure or not quote.in_parameter)

    def is_forgiven(self) -> bool:
        """Whether what follows forgives the missing tags."""
        is_last = self.is_function and self.following == Kind.END
        return self.is_alone() and (is_last or self.value.calls.end_by(self.following))

    def may_end_call(self) -> bool:
        """Whether it is the call's end if text and the end follow."""
        value = self.value
        is_whole = value.tokens[self.end - 1].kind == Kind.TOOL_CALL_END
        is_spelled = value.indent is not None and value.indent == self.indent
        is_sure = self.is_function and is_whole and is_spelled
        return self.is_alone() and is_sure and not value.calls.end_at_once


class _MisspelledEnd(_Tag):
    """A ``</parameter>`` in other letters or the plural, named, or without / or >."""

    def look(self) -> None:
        if not (self.is_alone() and self.indent is not None and self.mirrors):
            return
        self.following, end = self.value.tokens.following(self.behind)
        self.end = end if self.following == Kind.FUNCTION_END else 0

    def is_due(self) -> bool:
        """Whether the next parameter is, and is first on its line."""
        if self.following != Kind.PARAMETER:
            return False
        token = self.value.tokens[self.behind]
        return starts_line(token.gap) and self.call.is_due(self.call.key_of(token))

    def is_forgiven(self) -> bool:
        """Whether it ends the call with the closing tags that follow."""
        calls = self.value.calls
        if not self.end or calls.end_at_once:
            return self.end > 0
        following = self.value.tokens.following(self.end)[0]
        return following == Kind.END or calls.end_by(following)

    def may_end_call(self) -> bool:
        """Whether it is the call's end if text and the end follow."""
        last = self.value.tokens[self.end - 1].kind
        return self.end > 0 and last == Kind.TOOL_CALL_END


class _Opening(_Tag):
    """The opening of a call."""

    def may_be_call(self) -> bool:
        """Whether it may follow the call, whose end is held."""
        if self.held is None or self.quote is not None:
            return False
        is_declared = self.token.name in self.value.calls.tools.names
        return is_declared and self.held.weight >= Weight.SPELLED

    def text(self) -> str | None:
        """From the sequence that is held; None of a long one."""
        assert self.held is not None
        return self.value.tokens.short_text(self.held.back, self.behind)

    def waits(self) -> bool:
        """Whether the call must have a further parameter."""
        return self.may_be_call() and self.value.calls.wait()

    def is_quoted_again(self) -> bool:
        return self.may_be_call() and self.text() in self.call.quoted

    def is_call(self) -> bool:
        """Whether it stands in a plain position behind the call."""
        if not self.may_be_call() or self.held is None:
            return False
        lines = self.held.lines_to(self.value.tokens, self.behind - 1)
        return lines.position(self.token.text) is Position.PLAIN


class _Parameter(_Tag):
    """A ``<parameter=KEY>``, or what looks like it."""

    def is_due(self) -> bool:
        """Whether it is first on its line, and the call still lacks its key."""
        is_own = self.indent is not None and self.token.kind == Kind.PARAMETER
        return is_own and self.call.lacks(self.token)

    def is_behind_held(self) -> bool:
        """Whether only text of the frame stands between it and what is held."""
        if self.held is None or not self.is_due():
            return False
        start, end, tokens = self.held.back, self.behind - 1, self.value.tokens
        is_text = all(token.kind in TEXTS for token in tokens[start:end])
        return is_text and tokens.short_text(start, end) is not None


class Value:
    """The parameters of the call at hand, and where their values end.

    Attributes:
        indent: Of the value's closing tag; None: on any line.
        starts: Whether the value begins with the token at hand.
        quotes: Blocks and parameters that are open in the value.

    """

    def __init__(
        self, tokens: Tokens, output: Output, call: Call, calls: Calls
    ) -> None:
        self.tokens = tokens
        self.output = output
        self.call = call
        self.calls = calls
        self.indent: str | None = None
        self.starts = False
        self.quotes: list[_Quote] = []
        self._opening = ""  # the tag of the value at hand
        self._json: JsonEnd | None = None  # that the value may be, while it may
        self._json_tokens = 0  # of the value, that were read into it

    def mirrors(self, indent: str | None) -> bool:
        """Whether a closing tag is spelled as the parameter's opening tag."""
        return self.indent is None or indent == self.indent

    def open_quotes(self, indent: str | None) -> int:
        """How many quotes are open at a ``</parameter>``: one that is first on its
        line is none of a parameter that began in the middle of a line.
        """
        count = len(self.quotes)
        while indent is not None and count and self.quotes[count - 1].in_line:
            count -= 1
        return count

    def between(self, token: Token) -> str:
        """Between two tags of the frame."""
        kind, tokens = token.kind, self.tokens
        if kind == Kind.PARAMETER or self.call.lacks(token):
            return self._begin_parameter(token)
        if kind == Kind.PARAMETER_END or self._is_stray(token):
            return State.CALL
        if kind == Kind.TEXT and (end := self.behind_misspelled(tokens.at - 1)) > 0:
            tokens.at = end
            return State.CALL
        if kind == Kind.END:
            return self._end_of_output(token, State.CALL)
        at = tokens.at - 1
        tokens.at = tokens.sequence_end(at) if kind in CLOSING else at
        return self.calls.end_call()

    def behind_misspelled(self, at: int) -> int:
        """Index of the closing tag of a parameter at *at* that is due and whose opening
        is misspelled; else 0.
        """
        tokens = self.tokens
        if not (starts_line(tokens[at].gap) and tokens[at].text.startswith("<")):
            return 0
        end = tokens.behind_text(at)
        is_due = self.call.is_due(misspelled_key(tokens[at].text))
        return end if is_due and tokens[end].kind in CLOSING else 0

    def _is_stray(self, token: Token) -> bool:
        """Whether a call's closing tag stands before a parameter that is missing."""
        tokens, calls = self.tokens, self.calls
        if token.kind not in CALL_ENDS or calls.end_at_once or not calls.wait():
            return False
        end = tokens.sequence_end(tokens.at - 1)
        is_stray = len(tokens.peek(end).gap) <= MAX_GAP and self.call.lacks(tokens[end])
        tokens.at = end if is_stray else tokens.at
        return is_stray

    def _begin_parameter(self, token: Token) -> str:
        key, value = self.call.give(token)
        self.quotes.clear()
        self.output.emit(EventType.PARAMETER, key)
        self._json = JsonEnd() if self.call.takes_json(key) else None
        self._json_tokens = 0
        if not value:
            return self._begin_value(token)
        # The tag's rest is the value's beginning, so no newline is frame.
        self.output.emit(EventType.VALUE, value)
        self.indent = None
        return State.VALUE

    def _begin_value(self, token: Token) -> str:
        self._opening = token.text
        self.indent = split_gap(token.gap)[1] or ""
        return State.VALUE_START

    def value_start(self, token: Token) -> str:
        """The value's beginning: the newline behind ``<parameter=KEY>`` is frame."""
        call = self.call
        call.in_crlf = call.in_crlf and not token.gap.startswith("\n")
        newline = "\r\n" if call.in_crlf else "\n"
        begins_line = token.gap.startswith(newline)
        if token.kind == Kind.PARAMETER and token.text == self._opening:
            gap = self.tokens.peek(self.tokens.at).gap
            if not begins_line or not gap or gap.startswith(newline):
                return self._begin_value(token)  # given twice
        behind_json = self._behind_json()
        if begins_line:
            token = token._replace(gap=token.gap[len(newline) :])
        else:
            self.indent = None
        if behind_json >= self.tokens.at:
            return self._literal(token, behind_json)
        self.starts = True
        return self._read(token, State.VALUE_START, begins_line)

    def value(self, token: Token) -> str:
        """Text of the value, or a tag that may end it."""
        if token.kind == Kind.TEXT:
            self.output.emit(EventType.VALUE, token.gap + token.text)
            return State.VALUE
        self.starts = False
        return self._read(token, State.VALUE)

    def _behind_json(self) -> int:
        """Index behind the JSON that begins with the token at hand; else the token's.

        A tag within one of its strings is text.
        """
        tokens, json = self.tokens, self._json
        at = tokens.at - 1
        if json is None or not tokens[at].text.startswith(("[", "{")):
            return at
        while not json.is_whole and json.length <= MAX_JSON:
            token = tokens.peek(at + self._json_tokens)
            is_tag = token.kind != Kind.TEXT and not json.in_string
            is_over = token.kind == Kind.THINK_END and tokens.in_reasoning
            if is_tag or is_over or token.kind == Kind.END:
                return at
            json.add(token.gap + token.text)
            self._json_tokens += 1
        end = at + self._json_tokens
        text = tokens.text(at, end).removesuffix(json.behind)
        is_whole = json.is_whole and json.length - len(json.behind) <= MAX_JSON
        return end if is_whole and is_json(text) else at

    def _read(self, token: Token, state: str, begins_line: bool = False) -> str:
        """Read a token, which may be first on the value's own line."""
        tokens, kind = self.tokens, token.kind
        if kind == Kind.TEXT:
            self.output.emit(EventType.VALUE, token.gap + token.text)
            return State.VALUE
        if kind == Kind.END:
            return self._end_of_output(token, state)
        if self.output.calls is not None and self.calls.is_over(token):
            return self.calls.quote(tokens.at - 1)
        if kind == Kind.TOOL_CALL_END and token.text.count("<") > 1:
            self._split_end(token)
            return state
        if self.output.end is not None and not self.quotes:
            token = tokens.opening(tokens.at - 1)
        if token.kind not in _TABLES:
            return self._literal(token, tokens.at)
        kind_of_tag, rules = _TABLES[token.kind]
        tag = kind_of_tag(self, token, begins_line)
        tag.look()
        if tag.end:
            self.calls.accept_lines(tag.end)
        tag.look_behind()
        act = rule_of(rules, tag)
        del self.quotes[tag.open :]
        return act(self, tag)

    def _split_end(self, token: Token) -> None:
        """Another format's closing tag that no tag of this frame precedes is text."""
        tag, end, rest = token.text.partition(">")
        self.tokens.at = at = self.tokens.at - 1
        self.tokens[at : at + 1] = (
            Token(Kind.TEXT, self.tokens[at].gap, tag + end),
            Token(token.kind, rest.removesuffix(TOOL_CALL_END), TOOL_CALL_END),
        )

    def _literal(self, token: Token, end: int) -> str:
        """The tag, and those behind it before *end*, are the value's."""
        text, tokens = token.gap + token.text, self.tokens
        if end > tokens.at:
            text += tokens.text(tokens.at, end)
        self.output.emit(EventType.VALUE, text)
        tokens.at = end
        return State.VALUE

    def _end(self, tag: _Tag, end: int, *, ends_call: bool = False) -> str:
        """End the value before the tag; its frame goes on at the token at *end*."""
        self.output.decide(self.output.end, is_right=True)
        self.output.emit(EventType.VALUE, tag.gap)
        return self._leave(end, ends_call)

    def _leave(self, end: int, ends_call: bool) -> str:
        self.output.emit(EventType.VALUE_END)
        self.tokens.at = end
        return self.calls.end_call() if ends_call else State.CALL

    def _hold(self, tag: _Tag, end: int, weight: Weight) -> str:
        """Hold what may end the value, from the tag to the token at *end*."""
        output, token, gap = self.output, tag.token, tag.gap
        held = HeldEnd(self._lines_at(end), end, end, weight)
        output.decide(output.end, is_right=True)
        output.emit(EventType.VALUE, gap)
        output.hold_end(held)
        return self._literal(token._replace(gap=token.gap[len(gap) :]), end)

    def _lines_at(self, end: int) -> Lines:
        """The answer's lines up to the token at *end*, if the call ends there."""
        lines = self.output.lines.copy()
        lines.end_call()
        lines.add(self.tokens.peek(end).gap)
        return lines

    def _reach(self, end: int) -> None:
        """What is held reaches to the token at *end*, behind tags given twice."""
        held = self._held
        held.lines = self._lines_at(end)
        held.back = held.seen = end

    @property
    def _held(self) -> HeldEnd:
        held = self.output.end
        assert held is not None
        return held

    def _accept(self, *, ends_call: bool = True) -> str:
        """What is held ends the value; read on behind it."""
        held = self._held
        self.output.decide(held, is_right=False)
        return self._leave(held.back, ends_call)

    def cut(self, token: Token, state: str) -> str:
        """The output ends within the call, before *token* was decided."""
        if (held := self.output.end) is not None:
            self.output.decide(held, is_right=False)
        elif state in (State.VALUE, State.VALUE_START):
            gap = self.call.split_gap(token.gap)[0]
            if state == State.VALUE_START:
                gap = gap.removeprefix("\r")[1:] if self.call.in_crlf else gap[1:]
            self.output.emit(EventType.VALUE, gap)
        self.output.emit(EventType.CALL_CUT)
        self.tokens.at = len(self.tokens)
        return State.AFTER_CALL

    def _end_of_output(self, token: Token, state: str) -> str:
        """The model ends its output within a call."""
        self.calls.rereads += 1
        held = self.output.end
        if held is not None and not (held.weight is Weight.PART and self.quotes):
            return self._accept()
        is_held = self.output.calls is not None
        return self.calls.reread() if is_held else self.cut(token, state)

    def is_closed(self) -> bool:
        """Whether only the call's own closing tags are there behind the value."""
        *tokens, _ = self.tokens[self.tokens.at :]
        if not tokens or tokens[0].kind != Kind.PARAMETER_END:
            return False
        is_open = self.open_quotes(self.call.split_gap(tokens[0].gap)[1]) > 0
        return not is_open and all(token.kind in CLOSING for token in tokens)

    def literal(self, tag: _Tag) -> str:
        """The tag is text."""
        return self._literal(tag.token, tag.behind)

    def literal_sequence(self, tag: _Tag) -> str:
        """The tag and its closing sequence are text."""
        return self._literal(tag.token, tag.end)

    def end_before(self, tag: _Tag) -> str:
        """The value ends before the tag, and the frame goes on behind it."""
        return self._end(tag, tag.behind)

    def end_here(self, tag: _Tag) -> str:
        """The value ends before the tag, which the frame goes on with."""
        return self._end(tag, tag.behind - 1)

    def end_with_call(self, tag: _Tag) -> str:
        """The value and the call end with the tag."""
        return self._end(tag, tag.end or tag.behind, ends_call=True)

    def hold_part(self, tag: _Tag) -> str:
        """The call may end here, with a tag of the sequence missing."""
        return self._hold(tag, tag.end or tag.behind, Weight.PART)

    def hold_sequence(self, tag: _ParameterEnd) -> str:
        return self._hold(tag, tag.end, tag.weight)

    def repeat(self, tag: _Tag) -> str:
        """The tag repeats what is held."""
        self._reach(tag.end)
        return self._literal(tag.token, tag.end)

    def sequence(self, tag: _ParameterEnd) -> str:
        """The tag begins a closing sequence that no quoted block claims."""
        act = rule_of(_SEQUENCE, tag)
        self.quotes.clear()
        state = act(self, tag)
        is_decided = tag.is_decided() and self.output.end is not None
        return self._accept() if is_decided else state

    def end_quoted(self, tag: _ParameterEnd) -> str:
        """The tag is a quoted parameter's own."""
        assert tag.quote is not None
        tag.quote.in_parameter = tag.quote.in_line = False
        if tag.quote.name is None:
            self.quotes.pop()
        return self.literal(tag)

    def close_block(self, tag: _CallEnd) -> str:
        self.quotes.pop()
        return self.literal_sequence(tag)

    def quote_call(self, tag: _Opening) -> str:
        """The tag opens a block that the value quotes."""
        self.quotes.append(_Quote(tag.token.name, tag.token.in_tool_call))
        return self.literal(tag)

    def quote_first(self, tag: _Opening) -> str:
        """The same, and it may be quoted again."""
        if (text := tag.text()) is not None:
            self.call.quoted.add(text)
        return self.quote_call(tag)

    def quote_again(self, tag: _Opening) -> str:
        """The same, so what is held is text."""
        self.output.decide(self.output.end, is_right=True)
        return self.quote_call(tag)

    def accept_call(self, tag: _Opening) -> str:
        """The call ended with what is held, and the tag is the next one's."""
        return self._accept()

    def accept_before(self, tag: _Parameter) -> str:
        """What is held ends the value, and the frame goes on with the tag."""
        self._reach(tag.behind - 1)
        return self._accept(ends_call=False)

    def open_quoted(self, tag: _Tag) -> str:
        """The tag is a quoted block's own."""
        gap, quote = self.tokens.peek(tag.behind).gap, self.quotes[-1]
        quote.in_parameter = True
        quote.in_line = tag.indent is None and not gap.startswith("\n")
        return self.literal(tag)

    def quote_parameter(self, tag: _Tag) -> str:
        """The tag opens a parameter that the value quotes."""
        self.quotes.append(_Quote(None, in_parameter=True))
        return self.literal(tag)


# The first rule that applies decides: those of *Where a value ends* in
# docs/format.md, in its order.
_PARAMETER_END: Rules = (
    # 1. Given twice is given once.
    (lambda tag: tag.yields, Value.literal),
    # 2. The next parameter is due.
    (_ParameterEnd.is_due, Value.end_before),
    # 7. Text in a frame: what follows opens it, misspelled.
    (lambda tag: tag.drops, Value.end_before),
    # 3. A closing sequence.
    (_ParameterEnd.is_sequence, Value.sequence),
    # 4. A quoted block claims its own tags.
    (lambda tag: tag.claims, Value.end_quoted),
    # 5. The closer mirrors its opener.
    (_ParameterEnd.closes_parameter, Value.end_before),
    # 6. Forgotten tags.
    (_ParameterEnd.is_forgiven, Value.end_with_call),
    (_ParameterEnd.may_end_call, Value.hold_part),
    # Else it is text.
    (always, Value.literal),
)
# Of 3: what becomes of a closing sequence.
_SEQUENCE: Rules = (
    (_ParameterEnd.ends_call, Value.end_with_call),
    (_ParameterEnd.repeats, Value.repeat),
    (_ParameterEnd.outweighs, Value.hold_sequence),
    (always, Value.literal_sequence),
)
_CALL_END: Rules = (
    # 1. Given twice is given once.
    (_CallEnd.repeats, Value.repeat),
    # 4. A quoted block claims its own tags.
    (_CallEnd.closes_block, Value.close_block),
    # Else it is text where something is quoted or held.
    (lambda tag: not tag.is_alone(), Value.literal_sequence),
    # 6. Forgotten tags; an empty value has a line of its own.
    (lambda tag: tag.is_empty, Value.literal_sequence),
    (_CallEnd.is_forgiven, Value.end_with_call),
    (_CallEnd.may_end_call, Value.hold_part),
    # Else it is text.
    (always, Value.literal_sequence),
)
# 6. Forgotten tags: one that is misspelled.
_MISSPELLED_END: Rules = (
    (_MisspelledEnd.is_due, Value.end_before),
    (_MisspelledEnd.is_forgiven, Value.end_with_call),
    (_MisspelledEnd.may_end_call, Value.hold_part),
    (always, Value.literal),
)
# A tag without a name: its slash is missing, or it is as a quoted one.
_BARE_PARAMETER: Rules = (
    # 6. Forgotten tags.
    *_MISSPELLED_END[:-1],
    # 4. A quoted block claims its own tags, or it opens a quoted parameter.
    (_MisspelledEnd.in_block, Value.open_quoted),
    (_MisspelledEnd.opens_quote, Value.quote_parameter),
    # Else it is text.
    (always, Value.literal),
)
_OPENING: Rules = (
    # As most, where nothing is held.
    (lambda tag: tag.held is None, Value.quote_call),
    # 3. What a closing sequence was, a call behind it decides.
    (_Opening.waits, Value.quote_first),
    (_Opening.is_quoted_again, Value.quote_again),
    (_Opening.is_call, Value.accept_call),
    # 4. It opens a quoted block.
    (always, Value.quote_call),
)
_PARAMETER: Rules = (
    # 4. A quoted block claims its own tags.
    (_Parameter.in_block, Value.open_quoted),
    # 7. Text in a frame.
    (_Parameter.is_behind_held, Value.accept_before),
    # 6. Forgotten tags.
    (_Parameter.is_due, Value.end_here),
    # 4. It opens a quoted parameter.
    (_Parameter.opens_quote, Value.quote_parameter),
    # Else it is text.
    (always, Value.literal),
)
_TABLES: dict[str, tuple[type[_Tag], Rules]] = {
    Kind.PARAMETER_END: (_ParameterEnd, _PARAMETER_END),
    Kind.MISSPELLED_END: (_MisspelledEnd, _MISSPELLED_END),
    Kind.BARE_PARAMETER: (_MisspelledEnd, _BARE_PARAMETER),
    Kind.FUNCTION_END: (_CallEnd, _CALL_END),
    Kind.TOOL_CALL_END: (_CallEnd, _CALL_END),
    Kind.OPENING: (_Opening, _OPENING),
    Kind.PARAMETER: (_Parameter, _PARAMETER),
    Kind.OTHER_PARAMETER: (_Parameter, _PARAMETER),
}
