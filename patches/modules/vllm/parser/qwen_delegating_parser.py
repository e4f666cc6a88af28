# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The parser of the Qwen format in releases before the parser engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import vllm.envs as envs
from vllm.parser.constrained_calls import ConstrainedStream, function_name
from vllm.parser.delta_sequence import DeltaSequence
from vllm.parser.qwen_tool_deltas import (
    DeltaMessage,
    FunctionCall,
    QwenDeltaStream,
    callable_tools,
    make_tool_call_id,
    takes_undeclared_calls,
)
from vllm.parser.qwen_tool_pairs import QwenParser, reads_pair
from vllm.parser.qwen_tool_tokens import THINK_START
from vllm.reasoning.qwen3_reasoning_parser import Qwen3ReasoningParser

if TYPE_CHECKING:
    from vllm.parser.qwen_tool_pairs import Request


class OpeningStream:
    """A stream whose first characters tell whether it begins in the reasoning."""

    def __init__(self, open_stream: Callable[[bool], QwenDeltaStream]) -> None:
        self._open = open_stream
        self._held = ""
        self._stream: QwenDeltaStream | None = None

    def feed(self, text: str) -> list[DeltaMessage]:
        if self._stream is not None:
            return self._stream.feed(text)
        self._held += text
        start = self._held.lstrip()
        if len(start) < len(THINK_START) and THINK_START.startswith(start):
            return []
        self._stream = self._begin()
        return self._stream.feed(self._held)

    def end(self, *how: Any) -> list[DeltaMessage]:
        if self._stream is not None:
            return self._stream.end(*how)
        self._stream = self._begin()
        return self._stream.feed(self._held) + self._stream.end(*how)

    @property
    def call_is_cut(self) -> bool:
        return self._stream is not None and self._stream.call_is_cut

    def _begin(self) -> QwenDeltaStream:
        start = self._held.lstrip()
        reasoning = start.startswith(THINK_START)
        if reasoning:
            self._held = start
        return self._open(reasoning)


class QwenDelegatingParser(QwenParser):
    """Parser for reasoning and calls together."""

    reads_together = True

    _calls: list[FunctionCall] | None = None

    def __init__(
        self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)
        # Some releases leave the two parsers to the subclass.
        if self._reasoning_parser is None and self.reasoning_parser_cls is not None:
            self._reasoning_parser = self.reasoning_parser_cls(
                tokenizer, *args, **kwargs
            )
        if self._tool_parser is None and self.tool_parser_cls is not None:
            self._tool_parser = self.tool_parser_cls(tokenizer)

    def takes_json(self, request: Request) -> bool:
        """Whether the output is constrained to JSON instead of the format."""
        return (
            getattr(self._tool_parser, "supports_required_and_named", True)
            and request.tool_choice is not None
            and (
                request.tool_choice == "required"
                or function_name(request.tool_choice) is not None
            )
        )

    def _open_stream(
        self, request: Request
    ) -> QwenDeltaStream | OpeningStream | ConstrainedStream:
        takes_json = self.takes_json(request)
        schemas = {} if takes_json else callable_tools(request)

        def open_stream(reasoning: bool) -> QwenDeltaStream:
            return QwenDeltaStream(
                schemas,
                lambda name: make_tool_call_id(func_name=name),
                reasoning=reasoning,
                think_tags=self._reasoning_parser is not None,
                undeclared_calls=takes_undeclared_calls(request),
                prefix=self._prefix(),
            )

        stream: QwenDeltaStream | OpeningStream
        if self._output_opens_reasoning():
            stream = OpeningStream(open_stream)
        else:
            stream = open_stream(self._begins_in_reasoning())
        return ConstrainedStream(stream, request.tool_choice) if takes_json else stream

    def _output_opens_reasoning(self) -> bool:
        """Whether the output tells, as to the Qwen parser before v0.17.0."""
        return (
            isinstance(self._reasoning_parser, Qwen3ReasoningParser)
            and not hasattr(self._reasoning_parser, "thinking_enabled")
            and self._prompt_opens_reasoning() is None
        )

    def extract_response_outputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        items = super().extract_response_outputs(*args, **kwargs)
        if self.last_call_is_cut:
            items[-1].status = "incomplete"
        return items

    def extract_reasoning(
        self, model_output: str, request: Request
    ) -> tuple[str | None, str | None]:
        reasoning, content, self._calls = self.parse(model_output, request)
        return reasoning, content

    def _parse_tool_calls(
        self, request: Request, content: str | None, enable_auto_tools: bool
    ) -> tuple[list[FunctionCall], str | None]:
        """Calls of the output that :meth:`extract_reasoning` has read."""
        return self._calls or [], content

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: Sequence[int],
        request: Request,
        prompt_token_ids: Sequence[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        step = delta_text, delta_token_ids, request, prompt_token_ids
        return DeltaSequence.of(self.parse_deltas(*step, finished=finished))


def compose(
    tool_parser_name: str | None,
    tool_parser_cls: type | None,
    reasoning_parser_cls: type | None,
) -> type[QwenDelegatingParser] | None:
    """The class that serves a pair of parsers, if the reader reads it."""
    if not envs.VLLM_QWEN_TOOL_READER or not reads_pair(
        tool_parser_name, tool_parser_cls, reasoning_parser_cls
    ):
        return None
    classes = {
        "reasoning_parser_cls": reasoning_parser_cls,
        "tool_parser_cls": tool_parser_cls,
    }
    return type("QwenParser", (QwenDelegatingParser,), classes)
