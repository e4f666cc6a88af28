# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Tokens of the Qwen3-Coder tool-call format, and what stands between two tags.

:class:`Lexer` cuts the text into tokens: tags, wherever they stand, and the text
between them.  :class:`Tokens` holds those that may be read, or read again, and looks
at what follows one.
"""

from __future__ import annotations

import itertools
import re as std_re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import regex as re

from .qwen_tool_bounds import (
    MAX_FUNCTIONS,
    MAX_GAP,
    MAX_NAME,
    MAX_SPACE,
    MAX_TEXT,
)

THINK_START = "<think>"
THINK_END = "</think>"
TOOL_CALL_START = "<tool_call>"
TOOL_CALL_END = "</tool_call>"
FUNCTION_END = "</function>"


class Kind:
    """What a token is: a tag's text, or the group of the pattern that names it.

    Strings, because Python 3.11 takes 0.1 us to look up an enum's member, and some
    ten are looked up for a tag.
    """

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
    BARE_PARAMETER = "bare"  # without a name, or a closing tag without its slash
    PARAMETER_END = "</parameter>"
    FUNCTION_END = FUNCTION_END
    TOOL_CALL_END = TOOL_CALL_END
    MISSPELLED_END = "misspelled"  # of a parameter
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


THINK_TAGS = (Kind.THINK_START, Kind.THINK_END)
OPENINGS = (Kind.OPENING, Kind.JSON_OPENING, Kind.GARBLED_OPENING)
CALL_ENDS = (Kind.FUNCTION_END, Kind.TOOL_CALL_END)
CLOSING = (Kind.PARAMETER_END, *CALL_ENDS)
TOOL_CALL_ENDS = (Kind.TOOL_CALL_END, Kind.OTHER_END)
TEXTS = (
    Kind.TEXT,
    Kind.MISSPELLED_END,
    Kind.OTHER_END,
    Kind.TOOL_CALL_START,
    Kind.BARE_PARAMETER,
    *THINK_TAGS,
)
# Of a call, if other text may stand within them and behind them.
LOOSE = (Kind.GARBLED_OPENING, Kind.FUNCTION, Kind.TOOL_CALL_START)

# As str.isspace() has it: unlike Python's own, this \s has no U+001C to U+001F.
_GAP = rf"[\s\x1c-\x1f]{{0,{MAX_GAP}}}"
_SPACE = rf"[ \t\r\n]{{0,{MAX_SPACE}}}"  # within a tag
_NAME = rf"(?=[ \t\r\"']*[^<>\n \t\r\"'])[^<>\n]{{1,{MAX_NAME}}}"
_START = rf"<{_SPACE}tool_call{_SPACE}>"
_TAG = (
    r"</(?:parameter|function|tool_call)>"
    # Another format's closing tag; the frame's own may follow.
    r"|</(?:invoke|function_invocation|function_calls?)>"
    rf"(?:{_GAP}</tool_call>|(?P<closer>))"
    rf"|<{_SPACE}parameter{_SPACE}=(?P<parameter>{_NAME}){_SPACE}>"
    rf"|<{_SPACE}/{_SPACE}(?P<spaced>parameter|function|tool_call){_SPACE}>"
    rf"|</(?P<misspelled>(?i:parameters?)(?:(?:[ \t=][^<>\n]{{0,{MAX_NAME}}})?>"
    # Unclosed, so that it is no spaced tag whatever follows.
    rf"|(?=[ \t\r]{{0,{MAX_SPACE}}}\n"
    rf"(?:{_SPACE}[^> \t\r\n]|[ \t\r\n]{{{MAX_SPACE}}}))))"
    rf"|<parameter(?:(?P<bare>)|(?P<other>[ \t][^<>\n]{{0,{MAX_NAME}}}(?<!/)))>"
    rf"|(?:{_START}{_GAP})?<{_SPACE}function{_SPACE}=(?P<opening>{_NAME}){_SPACE}>"
    rf"(?={_GAP}(?:(?:</parameter>{_GAP})?<parameter={_NAME}>"
    r"|</function>|</tool_call>))"
    rf"|<tool_call>{_GAP}(?P<json>)(?=\{{)"
)
_TAGS = {True: re.compile(rf"</?think>|{_TAG}"), False: re.compile(_TAG)}
# Only where no tag matches.
_BLANK = rf"[ \t]{{0,{MAX_SPACE}}}"
_GARBLED_NAME = rf"[^\s<>(]{{1,{MAX_NAME}}}"
_GARBLED = re.compile(
    rf"{_START}{_GAP}<{_SPACE}function{_SPACE}={_BLANK}"
    rf"(?P<garbled>{_GARBLED_NAME})(?:{_SPACE}>)?"
    rf"|<{_SPACE}function{_SPACE}={_BLANK}(?P<function>{_GARBLED_NAME})(?:{_SPACE}>)?"
    r"|<tool_call>(?P<start>)"
)
_NAMED = re.compile(r"name[ \t]*+=[ \t]*+[\"']?+([^\s\"']++)")
_NAMING = ("opening", "garbled", "function")
_ATTRIBUTES = re.compile(
    r"([^\s/\"']++)[\"']?+(?:\s++[\w-]++=(?:\"[^\"]*+\"?|'[^']*+'?|[\w-]++))*+\s*+/?"
)
# A closing tag, or what a tag may begin with: the standard library's search is the
# faster one.
_BEGINNING = std_re.compile(
    r"<(?:(/(?:parameter|function|tool_call)>)"
    r"|/?(?:[Pp](?:ar|AR)|fun|too|thi|inv|(?:[Pp][Aa]?|fu?|to?|th?|in?)?\Z)"
    rf"|{_SPACE}/?{_SPACE}(?:par|fun|too|(?:pa?|fu?|to?)?\Z))"
)
_CUT_CLOSING_TAGS = frozenset(
    tag[:end] for tag in CLOSING for end in range(1, len(tag))
)
# What a model writes in the place of ``<parameter=KEY>``, as ``<param=KEY>``.
_MISSPELLED_OPENING = re.compile(
    r"<(?:[\w-]{1,64}+[ \t]*+[=:]?[ \t]*+)??[\"']?([^\s<>\"'=:/]{1,128})[\"']?"
    r"[ \t]*+[>\r\n]"
)
# On the line, before any tag.
_WORD = re.compile(r"[^\w\n<]*+\w")


# Where a tag stands in a text, what it is (of an empty one ``TEXT``), its name.
_Tag = tuple[int, int, str, str]


class Lexer:
    """Cuts the output into tokens; its *rest* may be the beginning of a tag."""

    def __init__(self, think_tags: bool, names: Collection[str]) -> None:
        self.rest = ""
        self._names = names  # of tools
        self._pattern = _TAGS[think_tags]
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
            start, _, kind, _ = tag = self._next_tag(text, 0)
            if kind != Kind.TEXT:
                return self._tokens_of(text, tag)
            text, self.rest = text[:start], text[start:]
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
                return at, beginning.end(), beginning[0], ""
            match = self._pattern.match(text, at, partial=True)
            is_cut = match is not None and match.partial
            if is_cut and (not final or text[at:] in _CUT_CLOSING_TAGS):
                return at, at, Kind.TEXT, ""
            if match is None:
                match = _GARBLED.match(text, at)
            if match is not None and not is_cut:
                tag, named = match.group(), match.lastgroup
                is_last = named == Kind.OTHER_END and not final
                if is_last and _goes_on(text, match.end()):
                    return at, at, Kind.TEXT, ""
                name = trim_name(match[named]) if named else ""
                if named == "other" and (given := _NAMED.match(name)) is not None:
                    name = given[1]
                elif named in _NAMING:
                    name = declared_name(name, self._names)
                kind = named or tag[max(tag.rfind("</"), 0) :]
                kind = f"</{name}>" if named == "spaced" else kind
                return at, match.end(), kind, name
            at += 1
        return len(text), len(text), Kind.TEXT, ""

    def _tokens_of(self, text: str, tag: _Tag, final: bool = False) -> list[Token]:
        """Tokens of a text, whose first tag this is."""
        tokens: list[Token] = []
        at, (start, end, kind, name) = 0, tag
        while kind != Kind.TEXT:
            self._add_text(tokens, text[at:start])
            tokens.append(Token(kind, self.take_gap(), text[start:end], name))
            at = end
            start, end, kind, name = self._next_tag(text, end, final)
        self._add_text(tokens, text[at:start])
        self.rest = text[start:]
        if final:
            tokens.append(Token(Kind.END, self.take_gap(), self.rest))
        return tokens

    def _add_text(self, tokens: list[Token], text: str) -> None:
        if body := text.strip():
            before, _, text = text.partition(body)
            if before or self._gap:
                self._gap.append(before)
                before = self.take_gap()
            tokens.append(Token(Kind.TEXT, before, body))
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


def _goes_on(text: str, at: int) -> bool:
    """Whether a ``</tool_call>`` may follow that makes one tag with what is before."""
    behind = text[at : at + MAX_GAP + len(TOOL_CALL_END)]
    tag = behind.lstrip()
    return len(behind) - len(tag) <= MAX_GAP and TOOL_CALL_END.startswith(tag)


def trim_name(name: str) -> str:
    """The name in a tag, without the white space and quotes around it."""
    return name.strip(" \t\r\"'")


def declared_name(name: str, declared: Collection[str]) -> str:
    """The name without attributes or a slash behind it, if that is declared."""
    if name not in declared and (match := _ATTRIBUTES.fullmatch(name)) is not None:
        return match[1] if match[1] in declared else name
    return name


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


def misspelled_key(text: str) -> str:
    """The key that a misspelled ``<parameter=KEY>`` at the text's beginning names."""
    match = _MISSPELLED_OPENING.match(text)
    return match[1] if match is not None else ""


def starts_line(gap: str) -> bool:
    """Whether a tag behind this white space is first on its line."""
    return split_gap(gap)[1] is not None


def is_beside(gap: str) -> bool:
    """Whether a call stands behind another on its line, or begins a line."""
    return "\n" not in gap or gap.endswith("\n")


def begins_with_word(token: Token) -> bool:
    """Whether a word stands on the line, before any tag."""
    return _WORD.match(token.gap + token.text) is not None


class Tools(NamedTuple):
    """The request's tools; see :class:`QwenToolReader`."""

    names: Collection[str]
    parameters_of: Callable[[str], Collection[str]]
    required_of: Callable[[str], Sequence[str]]
    takes_json: Callable[[str, str], bool]
    undeclared_calls: bool

    def declared(self, name: str) -> Collection[str]:
        return self.parameters_of(name) if name in self.names else ()

    def required(self, name: str) -> Sequence[str]:
        return self.required_of(name) if name in self.names else ()


# Conditions of what is at hand, and what a reader then does: the next state.
Act = Callable[[Any, Any], str]
Rules = tuple[tuple[Callable[[Any], bool], Act], ...]


def rule_of(rules: Rules, tag: object) -> Act:
    """What the first rule that applies to a tag does."""
    for applies, act in rules:
        if applies(tag):
            return act
    raise AssertionError("the last rule always applies")


def always(tag: object) -> bool:
    """The condition of the last rule."""
    return True


class NeedMore(Exception):
    """What follows decides, and is not there yet."""


class Tokens(list[Token]):
    """Tokens that may be read, or read again.

    What looks at a token that is not there yet raises NeedMore.  Text between two
    tags of a frame becomes one token, as an opening with text in it does.

    Attributes:
        at: Index of the next one.
        in_reasoning: Whether they are the reasoning's.

    """

    def __init__(self, tools: Tools, in_reasoning: bool) -> None:
        super().__init__()
        self.at = 0
        self.in_reasoning = in_reasoning
        self._tools = tools

    def peek(self, at: int) -> Token:
        """The token at *at*."""
        if at >= len(self):
            raise NeedMore
        return self[at]

    def text(self, start: int, end: int) -> str:
        """Text of the tokens from *start* to that at *end*."""
        return "".join([token.gap + token.text for token in self[start:end]])

    def short_text(self, start: int, end: int) -> str | None:
        """The same, if it is no longer than a frame's; else None."""
        texts, length = [], 0
        for token in itertools.islice(self, start, end):
            texts.append(token.gap + token.text)
            length += len(texts[-1])
            if length > MAX_TEXT:
                return None
        return "".join(texts)

    def join(self, at: int, end: int, **fields: str) -> Token:
        """Make one token of those from *at* to that at *end*, with these fields."""
        gap = self[at].gap
        text = self.text(at, end)[len(gap) :]
        self[at:end] = [self[at]._replace(text=text, **fields)]
        return self[at]

    def behind_text(self, at: int, *, in_prose: bool = True) -> int:
        """Index behind the text at *at*, which may stand between two tags of a frame.

        It is *at* if the text is too long, or if it begins with a word and must not
        stand *in_prose*.
        """
        end, length = at, 0
        while (token := self.peek(end)).kind in TEXTS:
            if token.kind == Kind.THINK_END and self.in_reasoning:
                break
            length += len(token.gap) + len(token.text)
            if end > at and token.kind == self[end - 1].kind == Kind.TEXT:
                end -= 1
                token = self.join(end, end + 2)
            if length > MAX_TEXT or (
                end == at
                and (
                    token.text.startswith("\\")
                    or (not in_prose and begins_with_word(token))
                )
            ):
                return at
            end += 1
        return end

    def opening(self, at: int, *, in_prose: bool = False) -> Token:
        """The token at *at*, joined to the opening of a declared function with text
        within it, or between it and a declared parameter, if it begins one.

        Text within it may begin with a word unless it stands *in_prose*.
        """
        first, end, name = self[at], at, ""
        for given in range(MAX_FUNCTIONS + 1 if first.kind in LOOSE else 0):
            before, end = end, self.behind_text(end)
            token = self.peek(end)
            if in_prose and end > at + 1 and begins_with_word(self[at + 1]):
                break
            if name and token.kind in (Kind.PARAMETER, Kind.OTHER_PARAMETER):
                declared = self._tools.parameters_of(name)
                if declared_name(token.name, declared) not in declared:
                    break
                return self.join(at, end, kind=Kind.OPENING, name=name)
            is_opening = token.kind in (*OPENINGS, Kind.FUNCTION)
            is_beyond = len(token.gap) > MAX_GAP or given == MAX_FUNCTIONS
            if is_beyond or not is_opening or token.name not in self._tools.names:
                break
            is_again = name or token.in_tool_call
            if is_again and (name not in ("", token.name) or end > max(before, at + 1)):
                break
            name, end = token.name, end + 1
            if token.kind == Kind.OPENING:
                return self.join(at, end, kind=Kind.OPENING, name=name)
        return first

    def sequence_end(self, at: int) -> int:
        """Index behind a closing tag and, at ``</function>``, a ``</tool_call>``."""
        end = at + 1
        if self[at].kind != Kind.FUNCTION_END:
            return end
        if self.peek(end).kind in TOOL_CALL_ENDS:
            return end + 1
        behind = self.behind_text(end, in_prose=at >= self.at)
        tag = self.peek(behind)
        if behind == end or tag.kind != Kind.TOOL_CALL_END:
            return end
        is_frame = starts_line(tag.gap) or "\n" not in self.text(end, behind)
        if not is_frame:
            token = self.peek(behind + 1)
            is_frame = token.kind not in TEXTS or "\n" in token.gap
        return behind + 1 if is_frame else end

    def following(self, at: int) -> tuple[str, int]:
        """What follows a closing tag, at the token *at*.

        Returns:
            ``FUNCTION_END`` for the rest of a closing sequence, ``OPENING`` only for
            a call in a plain position; the index behind closing tags.

        """
        token = self.peek(at)
        if is_beside(token.gap):
            token = self.opening(at)
        kind, gap = token.kind, token.gap
        is_call = is_beside(gap) and token.name in self._tools.names
        if len(gap) > MAX_GAP or (kind == Kind.OPENING and not is_call):
            kind = Kind.TEXT
        elif kind in CALL_ENDS:
            return Kind.FUNCTION_END, self.sequence_end(at)
        return kind, at + (kind == Kind.PARAMETER_END)
