# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Serves outputs in the Qwen3-Coder tool-call format through one reader.

:class:`QwenToolReader` reads the whole output, reasoning included, because only
a reader that knows the request's tools can tell where a call begins in it.
Streamed and not streamed output take the same way.

This is for ``--tool-call-parser qwen3_coder`` and ``qwen3_xml``, alone or with
``--reasoning-parser qwen3``.  ``VLLM_QWEN_TOOL_READER=0`` brings back the
parsers that the names ``qwen3_coder_stock`` and ``qwen3_xml_stock`` always mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from vllm.parser.abstract_parser import DelegatingParser
from vllm.parser.metrics import record_tool_parser_invocation
from vllm.parser.qwen_tool_compat import (
    DeltaMessage,
    ExtractedToolCallInformation,
    FunctionCall,
    make_tool_call_id,
)
from vllm.parser.qwen_tool_deltas import (
    QwenDeltaStream,
    assemble,
    callable_tools,
    extract_tool_calls,
    log_reader,
    merge_deltas,
    takes_undeclared_calls,
)
from vllm.parser.qwen_tool_reader import THINK_END, THINK_START, TOOL_CALL_START
from vllm.tool_parsers.abstract_tool_parser import ToolParser
from vllm.tool_parsers.qwen3_engine_tool_parser import Qwen3EngineToolParser

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
    from vllm.parser.engine.parser_engine import ParserEngine
    from vllm.tokenizers import TokenizerLike
    from vllm.tool_parsers.abstract_tool_parser import Tool

TURN_START = "<|im_start|>"


class QwenToolParser(DelegatingParser):
    """Parser for reasoning and calls together.

    The two adapters still answer what is asked about token ids.
    """

    _stream: QwenDeltaStream | None = None
    _last_opened: QwenDeltaStream | None = None
    _reasoning_count: int | None = None  # once the reasoning has ended
    _finish: tuple[str | None, int | str | None] = (None, None)
    _prompt_ends_reasoning = False
    _shows_reasoning = True

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Tell the reader what it follows: only the last turn of the prompt counts."""
        if (forward := getattr(super(), "set_prompt_token_ids", None)) is not None:
            forward(prompt_token_ids)
        if self._reasoning_parser is None:
            return
        turn = list(prompt_token_ids)
        boundary = self._reasoning_parser.vocab.get(TURN_START)
        if boundary in turn:
            turn = turn[len(turn) - turn[::-1].index(boundary) :]
        self._prompt_ends_reasoning = self.is_reasoning_end(turn)

    def _takes_json(self, request: ChatCompletionRequest | ResponsesRequest) -> bool:
        """Whether the output is constrained to JSON instead of the format."""
        tool_choice = request.tool_choice
        return (
            self._tool_parser is not None
            and self._tool_parser.supports_required_and_named
            and tool_choice is not None
            and tool_choice not in ("auto", "none")
        )

    def _open_stream(
        self, request: ChatCompletionRequest | ResponsesRequest
    ) -> QwenDeltaStream:
        if (
            count := getattr(self, "_initialize_history_tool_call_cnt", None)
        ) is not None:
            count(request)
        adapter: Any = self._reasoning_parser  # one with an engine
        has_reasoning = adapter is not None
        thinking = has_reasoning and adapter._parser_engine.thinking_enabled
        self._reasoning_count = None
        # Only chat requests have it.
        self._shows_reasoning = getattr(request, "include_reasoning", True)
        self._last_opened = QwenDeltaStream(
            callable_tools(request),
            self._make_call_id,
            reasoning=thinking and not self._prompt_ends_reasoning,
            think_tags=has_reasoning,
            undeclared_calls=takes_undeclared_calls(request),
        )
        return self._last_opened

    def set_finish_reason(
        self, finish_reason: str | None, stop_reason: int | str | None = None
    ) -> None:
        self._finish = finish_reason, stop_reason

    @property
    def last_call_is_cut(self) -> bool:
        return self._last_opened is not None and self._last_opened.call_is_cut

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
        request: ChatCompletionRequest | ResponsesRequest,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        if self._takes_json(request):
            return super().parse(
                model_output, request, enable_auto_tools, model_output_token_ids
            )
        stream = self._open_stream(request)
        reasoning, content, calls = assemble(
            stream.feed(model_output) + stream.end(request, *self._finish)
        )
        record_tool_parser_invocation(
            is_tool_called=bool(calls), is_streaming=False, request=request
        )
        return reasoning, content, calls

    def parse_deltas(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: ChatCompletionRequest | ResponsesRequest,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> list[DeltaMessage]:
        stream = self._stream
        if stream is None:
            if self._takes_json(request):
                delta = super().parse_delta(
                    delta_text,
                    delta_token_ids,
                    request,
                    prompt_token_ids,
                    finished=finished,
                )
                return [] if delta is None else [delta]
            if prompt_token_ids is not None:
                self.set_prompt_token_ids(prompt_token_ids)
            self._stream = stream = self._open_stream(request)
        deltas = stream.feed(delta_text)
        if finished:
            deltas += stream.end(request, *self._finish)
        if not self._shows_reasoning:
            deltas = [delta for delta in deltas if delta.reasoning is None]
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
        request: ChatCompletionRequest | ResponsesRequest,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        return merge_deltas(
            self.parse_deltas(
                delta_text,
                delta_token_ids,
                request,
                prompt_token_ids,
                finished=finished,
            )
        )


class QwenReaderToolParser(Qwen3EngineToolParser):
    """The tool parser that is registered as ``qwen3_coder`` and ``qwen3_xml``.

    It reads answers whose reasoning is already split off.
    """

    _stream: QwenDeltaStream | None = None
    skip_reasoning_parsing = False

    def __init__(
        self, tokenizer: TokenizerLike, tools: list[Tool] | None = None, **kwargs: Any
    ) -> None:
        # Not the adapter's own, which makes an engine for each stream.
        ToolParser.__init__(self, tokenizer, tools)
        self._make_engine = partial(self._parser_engine_cls, tokenizer, tools, **kwargs)

    @cached_property
    def _parser_engine(self) -> ParserEngine:
        """The adapter's engine, which adjusts requests and reads nothing."""
        engine = self._make_engine()
        if self.skip_reasoning_parsing:
            engine.skip_reasoning_parsing = True
        return engine

    def _open_stream(self, request: ChatCompletionRequest) -> QwenDeltaStream:
        return QwenDeltaStream(
            callable_tools(request, self.tools),
            lambda name: make_tool_call_id(func_name=name),
            think_tags=not self.skip_reasoning_parsing,
            undeclared_calls=takes_undeclared_calls(request),
        )

    def extract_tool_calls(
        self, model_output: str, request: ChatCompletionRequest
    ) -> ExtractedToolCallInformation:
        return extract_tool_calls(self._open_stream(request), model_output)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: ChatCompletionRequest,
    ) -> DeltaMessage | None:
        if self._stream is None:
            self._stream = self._open_stream(request)
        return merge_deltas(self._stream.feed(delta_text))

    def finish_streaming(self) -> DeltaMessage | None:
        return merge_deltas(self._stream.finish()) if self._stream else None


def reads_qwen_format(
    tool_parser_cls: type | None, reasoning_parser_name: str | None
) -> bool:
    """Whether :class:`QwenToolParser` serves this pair of parsers."""
    if tool_parser_cls is not QwenReaderToolParser:
        return False
    if reasoning_parser_name not in (None, "", "qwen3"):
        return False
    log_reader()
    return True
