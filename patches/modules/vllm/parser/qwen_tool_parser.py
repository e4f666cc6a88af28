# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The parser of the Qwen format in releases with a parser engine (v0.24.0)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import vllm.envs as envs
from vllm.parser.abstract_parser import DelegatingParser, Parser
from vllm.parser.metrics import record_tool_parser_invocation
from vllm.parser.qwen_tool_deltas import (
    DeltaMessage,
    FunctionCall,
    QwenDeltaStream,
    callable_tools,
    make_tool_call_id,
    merge_deltas,
    requires_call,
    takes_undeclared_calls,
)
from vllm.parser.qwen_tool_outcomes import record, register
from vllm.parser.qwen_tool_pairs import QwenParser, reads_pair
from vllm.parser.qwen_tool_tokens import THINK_END, THINK_START, TOOL_CALL_START
from vllm.tool_parsers.abstract_tool_parser import ToolParser

if TYPE_CHECKING:
    from vllm.parser.engine.parser_engine import ParserEngine
    from vllm.parser.qwen_tool_pairs import Request
    from vllm.tokenizers import TokenizerLike
    from vllm.tool_parsers.abstract_tool_parser import Tool


class QwenToolParser(QwenParser):
    """Parser for reasoning and calls together."""

    _reasoning_count: int | None = None  # once the reasoning has ended
    _unsent: Sequence[DeltaMessage] = ()  # of a caller that takes one delta a step

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int] | None) -> None:
        super().set_prompt_token_ids(prompt_token_ids)
        forward = getattr(DelegatingParser, "set_prompt_token_ids", None)
        if forward is not None:
            forward(self, prompt_token_ids)

    def _takes_json(self, request: Request) -> bool:
        """Whether the output is constrained to JSON instead of the format."""
        tool_choice = request.tool_choice
        return (
            self._tool_parser is not None
            and self._tool_parser.supports_required_and_named
            and tool_choice is not None
            and tool_choice not in ("auto", "none")
        )

    def _call_ends_reasoning(self) -> bool:
        """Whether a call in the reasoning begins the grammar of a required call."""
        parser = self._reasoning_parser
        if parser is None:
            return False
        tags = THINK_START, TOOL_CALL_START
        return parser.is_reasoning_end([parser.vocab.get(tag) for tag in tags])

    def _open_stream(self, request: Request) -> QwenDeltaStream:
        count = getattr(self, "_initialize_history_tool_call_cnt", None)
        if count is not None:
            count(request)
        self._reasoning_count = None
        return QwenDeltaStream(
            callable_tools(request),
            self._make_call_id,
            reasoning=self._begins_in_reasoning(),
            think_tags=self._reasoning_parser is not None,
            undeclared_calls=takes_undeclared_calls(request),
            constrained=requires_call(request) and self._call_ends_reasoning(),
            prefix=self._prefix(),
            keeps_space=self._keeps_space(),
        )

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Count the tokens of the reasoning, its tags left out.

        The adapter did not see the output, and would have to read all of it, at
        every step if the client wants the usage of every step.
        """
        if self._reasoning_parser is None:
            return 0
        stream = self._last_opened
        if stream is None:
            return self._reasoning_parser.count_reasoning_tokens(token_ids)
        if self._reasoning_count is not None:
            return self._reasoning_count
        vocab = self._reasoning_parser.vocab
        begins = len(token_ids) > 0 and token_ids[0] == vocab.get(THINK_START)
        if not (begins or stream.opens_in_reasoning):
            return 0
        end = len(token_ids)
        if not stream.in_reasoning:
            # A call ends it as well, the first one that it does not quote.
            quoted = stream.quoted_calls
            think_end, tool_call = vocab.get(THINK_END), vocab.get(TOOL_CALL_START)
            for at, token_id in enumerate(token_ids):
                if token_id == think_end or (token_id == tool_call and not quoted):
                    end = at
                    break
                quoted -= token_id == tool_call
            self._reasoning_count = end - begins
        return end - begins

    def _make_call_id(self, name: str) -> str:
        state = self._stream_state
        call_id = make_tool_call_id(
            id_type=state.tool_call_id_type,
            func_name=name,
            idx=state.history_tool_call_cnt,
        )
        state.history_tool_call_cnt += 1
        return call_id

    def parse(
        self,
        model_output: str,
        request: Request,
        enable_auto_tools: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        if self._takes_json(request):
            return DelegatingParser.parse(
                self, model_output, request, enable_auto_tools, *args, **kwargs
            )
        reasoning, content, calls = super().parse(model_output, request, **kwargs)
        record(self._last_opened.outcomes)
        record_tool_parser_invocation(
            is_tool_called=bool(calls), is_streaming=False, request=request
        )
        return reasoning, content, calls

    def parse_deltas(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Request,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> list[DeltaMessage]:
        step = delta_text, delta_token_ids, request, prompt_token_ids
        if self._feed is not None and not finished:
            deltas = self._feed(delta_text)
        elif self._stream is None and self._takes_json(request):
            delta = DelegatingParser.parse_delta(self, *step, finished=finished)
            return [] if delta is None else [delta]
        else:
            deltas = super().parse_deltas(*step, finished=finished)
        if finished:
            record(self._last_opened.outcomes)
        is_tool_called = False
        for delta in deltas:
            if delta.tool_calls:
                is_tool_called = True
        record_tool_parser_invocation(
            is_tool_called=is_tool_called, is_streaming=True, request=request
        )
        return deltas

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Request,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        """Return one delta of one kind, or none.

        What a step holds of another kind goes with the next step; the last step
        has all that is left.
        """
        step = delta_text, delta_token_ids, request, prompt_token_ids
        unsent = [*self._unsent, *self.parse_deltas(*step, finished=finished)]
        _, first = next(groupby(unsent, _kind), (None, ()))
        sent = unsent if finished else list(first)
        self._unsent = unsent[len(sent) :]
        return merge_deltas(sent)


def _kind(delta: DeltaMessage) -> tuple[bool, bool]:
    return bool(delta.reasoning), bool(delta.tool_calls)


class _LazyEngine(ToolParser):
    """Leaves out the engine that the adapter makes for each stream.

    It adjusts requests, and reads nothing here.
    """

    reads_whole_output = True
    _parser_engine_cls: Any
    skip_reasoning_parsing = False

    def __init__(
        self, tokenizer: TokenizerLike, tools: list[Tool] | None = None, **kwargs: Any
    ) -> None:
        ToolParser.__init__(self, tokenizer, tools)
        self._make_engine = partial(self._parser_engine_cls, tokenizer, tools, **kwargs)

    @cached_property
    def _parser_engine(self) -> ParserEngine:
        return self._make_engine()


def compose(
    tool_parser_name: str | None,
    tool_parser_cls: type[ToolParser] | None,
    reasoning_parser_cls: type | None,
) -> tuple[type[Parser], type[ToolParser] | None]:
    """The base of the parser that serves a pair, and the class for its tools."""
    if not envs.VLLM_QWEN_TOOL_READER or not reads_pair(
        tool_parser_name, tool_parser_cls, reasoning_parser_cls
    ):
        return DelegatingParser, tool_parser_cls
    register()
    lazy = type("QwenToolAdapter", (_LazyEngine, tool_parser_cls), {})
    return QwenToolParser, lazy
