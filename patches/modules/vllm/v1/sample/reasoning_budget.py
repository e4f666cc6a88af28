# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""What ``thinking_token_budget`` counts where reasoning stands before the answer only.

Reasoning ends at its end tag or, for requests that may call tools, where a call begins.
Only white space may stand between that, or the output's beginning, and a start tag:
once the answer has begun, tags are text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class ReasoningMarkers(NamedTuple):
    """Token ids that the configured strings do not name; None for no such token."""

    think_end: int | None
    tool_call: int | None
    white_space: frozenset[int]


def reasoning_markers(tokenizer: Any) -> ReasoningMarkers:
    """The markers in a tokenizer's vocabulary."""
    vocab = tokenizer.get_vocab()
    # A byte-level vocabulary writes no white space with ASCII's letters and digits;
    # only the few other tokens are worth decoding.
    white_space = frozenset(
        token_id
        for token, token_id in vocab.items()
        if not any(char.isascii() and char.isalnum() for char in token)
        and tokenizer.convert_tokens_to_string([token]).isspace()
    )
    return ReasoningMarkers(
        vocab.get("</think>"), vocab.get("<tool_call>"), white_space
    )


class _Reading(NamedTuple):
    """What some tokens of an output are; positions count from the output's first."""

    length: int
    #: As many of the last tokens as the longest marker has.
    recent: tuple[int, ...]
    #: Where the reasoning that is open begins; None if none is.
    opened: int | None
    #: Where the text of the answer begins.
    text: int | None


class ReasoningBudget:
    """The budget of one request: which token it forces at the next positions."""

    def __init__(
        self,
        config: Any,
        prompt: Sequence[int] | None,
        budget: int,
        tool_call_ends: bool,
    ) -> None:
        markers = config.reasoning_markers
        self._budget = budget
        self._start = tuple(config.reasoning_start_token_ids or ())
        self._forced = tuple(config.reasoning_end_token_ids or ())
        natural = getattr(config, "natural_reasoning_end_token_ids", None)
        implicit = (markers.think_end, markers.tool_call if tool_call_ends else None)
        ends = {self._forced, tuple(natural or ()), *((token,) for token in implicit)}
        self._ends = ends - {(), (None,)}
        self._white_space = markers.white_space
        self._longest = max(map(len, (self._start, *self._ends)))
        self._begin = self._prompt(list(prompt or ()))
        self._reading = self._begin
        #: The forced token behind the output and behind each of its drafts.
        self.forced: list[int | None] = []

    @classmethod
    def of(
        cls, config: Any, prompt: Sequence[int] | None, params: Any
    ) -> ReasoningBudget | None:
        """The budget of a request whose reasoning stands before its answer only."""
        if (
            not params.thinks_before_answer
            or config.reasoning_markers is None
            or not config.reasoning_start_token_ids
        ):
            return None
        return cls(
            config,
            prompt,
            params.thinking_token_budget,
            params.tool_call_ends_thinking,
        )

    def update(self, output: Sequence[int], drafts: Sequence[int]) -> None:
        """Take the output so far, and the drafts that may follow it."""
        if len(output) < self._reading.length:
            self._reading = self._begin
        for token in output[self._reading.length :]:
            self._reading = self._after(self._reading, token)
        reading = self._reading
        self.forced = [self._force(reading)]
        for token in drafts:
            reading = self._after(reading, token)
            self.forced.append(self._force(reading))

    def _prompt(self, prompt: list[int]) -> _Reading:
        recent = tuple(prompt[-self._longest :])
        opened = _behind(prompt, self._start)
        thought = prompt[opened:]
        if not opened or any(_behind(thought, end) for end in self._ends):
            return _Reading(0, recent, None, None)
        return _Reading(0, recent, -len(thought), None)

    def _after(self, reading: _Reading, token: int) -> _Reading:
        """Read one token more."""
        length, recent, opened, text = reading
        length += 1
        if text is not None and length - text > self._longest:
            # No marker can begin before the answer any more.
            return reading._replace(length=length)
        recent = (*recent, token)[-self._longest :]
        if opened is None and text is None and token not in self._white_space:
            text = length - 1
        for marker in (self._start, *self._ends):
            begin = length - len(marker)
            if recent[-len(marker) :] == marker and (text is None or begin <= text):
                opened, text = (length if marker == self._start else None), None
                break
        return _Reading(length, recent, opened, text)

    def _force(self, reading: _Reading) -> int | None:
        """The token behind these, or None if the model may choose."""
        if reading.opened is None or reading.length - reading.opened < self._budget:
            return None
        begun = max(
            count
            for count in range(len(self._forced))
            if reading.recent[max(0, len(reading.recent) - count) :]
            == self._forced[:count]
        )
        return self._forced[begun]


def _behind(tokens: list[int], marker: tuple[int, ...]) -> int:
    """The position behind the last ``marker``, 0 for none."""
    for end in range(len(tokens), len(marker) - 1, -1):
        if tokens[end - 1] == marker[-1] and (
            tuple(tokens[end - len(marker) : end]) == marker
        ):
            return end
    return 0
