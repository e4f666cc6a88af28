# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The Qwen reader behind the parser interface of releases before the engine.

One object reads one output, reasoning and calls together, whatever the number
of tokens a step delivers; serving tells it the prompt and the output's end.

This is for ``--tool-call-parser qwen3_coder`` and ``qwen3_xml``, alone or with
``--reasoning-parser qwen3``.  ``VLLM_QWEN_TOOL_READER=0`` brings back the
parsers that the names ``qwen3_coder_stock`` and ``qwen3_xml_stock`` always mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from vllm.parser.abstract_parser import DelegatingParser
from vllm.parser.constrained_calls import ConstrainedStream, function_name
from vllm.parser.delta_sequence import DeltaSequence
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
from vllm.parser.qwen_tool_reader import THINK_END, THINK_START
from vllm.tool_parsers.qwen3coder_tool_parser import Qwen3CoderToolParser
from vllm.tool_parsers.qwen3xml_tool_parser import Qwen3XMLToolParser

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

    Request = ChatCompletionRequest | ResponsesRequest

_TURN_START = "<|im_start|>"


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


class QwenStreamingToolParser:
    """Makes a tool parser read answers, their reasoning already split off.

    It keeps the record that the streaming interface of a tool parser has: the
    arguments in pieces, which are joined where the record is read, because as
    text they would be copied anew at every step.
    """

    tools: Any = ()

    _stream: QwenDeltaStream | None = None
    _record: list[tuple[str, list[str]]]  # each call's name, its arguments

    @property
    def streamed_args_for_tool(self) -> list[str]:
        """Arguments of each call, as far as they were streamed."""
        return ["".join(pieces) for _, pieces in self._record]

    @streamed_args_for_tool.setter
    def streamed_args_for_tool(self, _: list[str]) -> None:
        self._record = []  # the base class sets it when it begins

    @property
    def prev_tool_call_arr(self) -> list[dict[str, str]]:
        """Name and arguments of each call, as far as they were streamed."""
        return [
            {"name": name, "arguments": "".join(pieces)}
            for name, pieces in self._record
        ]

    @prev_tool_call_arr.setter
    def prev_tool_call_arr(self, _: list[dict[str, str]]) -> None:
        self._record = []

    def record_streamed(self, deltas: Sequence[DeltaMessage]) -> None:
        for delta in deltas:
            for call in delta.tool_calls:
                if call.index == len(self._record):
                    self._record.append((call.function.name, []))
                self._record[call.index][1].append(call.function.arguments or "")

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
        if not previous_text:  # a new output
            self._stream = None
            self._record.clear()
        if self._stream is None:
            self._stream = self._open_stream(request)
        deltas = self._stream.feed(delta_text)
        self.record_streamed(deltas)
        return merge_deltas(deltas)

    def finish_streaming(self) -> DeltaMessage | None:
        """Deliver what was held back until the output's end."""
        deltas = self._stream.finish() if self._stream is not None else []
        self.record_streamed(deltas)
        return merge_deltas(deltas)

    def extract_tool_calls(
        self, model_output: str, request: ChatCompletionRequest
    ) -> ExtractedToolCallInformation:
        return extract_tool_calls(self._open_stream(request), model_output)

    def _open_stream(self, request: Any) -> QwenDeltaStream:
        if request is None or (self.tools and not request.tools):
            # The parser was given the tools; a request without defaults to "none".
            request = SimpleNamespace(tools=list(self.tools or ()), tool_choice="auto")
        return QwenDeltaStream(
            callable_tools(request, self.tools),
            lambda name: make_tool_call_id(func_name=name),
            undeclared_calls=takes_undeclared_calls(request),
        )


class QwenReaderToolParser(QwenStreamingToolParser, Qwen3CoderToolParser):
    """The tool parser that is registered as ``qwen3_coder``."""


class QwenReaderXMLToolParser(QwenStreamingToolParser, Qwen3XMLToolParser):
    """The tool parser that is registered as ``qwen3_xml``."""


class QwenDelegatingParser(DelegatingParser):
    """Parser for ``--tool-call-parser qwen3_coder`` or ``qwen3_xml``, with or
    without ``--reasoning-parser qwen3``.

    The two parsers still answer what is asked about token ids.
    """

    _stream: QwenDeltaStream | OpeningStream | ConstrainedStream | None = None
    _calls: list[FunctionCall] | None = None
    _finish: tuple[str | None, int | str | None] = (None, None)
    _prompt_token_ids: Sequence[int] | None = None

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
            self._tool_parser.tools = list(tools or ())

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

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int] | None) -> None:
        """Tell the prompt, which may have opened or closed the reasoning."""
        self._prompt_token_ids = prompt_token_ids

    def set_finish_reason(
        self, finish_reason: str | None, stop_reason: int | str | None = None
    ) -> None:
        """Tell why the output ends, before its last part is parsed."""
        self._finish = finish_reason, stop_reason

    @property
    def last_call_is_cut(self) -> bool:
        """Whether the output ended within its last call."""
        return self._stream is not None and self._stream.call_is_cut

    def _begins_in_reasoning(self) -> bool | None:
        """Whether the output begins in the reasoning; ``None`` if it tells."""
        parser = self._reasoning_parser
        if parser is None or not getattr(parser, "thinking_enabled", True):
            return False
        vocabulary = self.vocab
        for token_id in reversed(self._prompt_token_ids or ()):
            if token_id == vocabulary.get(THINK_START):
                return True
            if token_id == vocabulary.get(THINK_END):
                return False
            if token_id == vocabulary.get(_TURN_START):
                break
        # Before v0.17.0 the parser takes ``<think>`` from the output alone.
        return True if hasattr(parser, "thinking_enabled") else None

    def _open_delta_stream(
        self, schemas: dict[str, Any], undeclared_calls: bool
    ) -> QwenDeltaStream | OpeningStream:
        def open_stream(reasoning: bool) -> QwenDeltaStream:
            return QwenDeltaStream(
                schemas,
                lambda name: make_tool_call_id(func_name=name),
                reasoning=reasoning,
                think_tags=self._reasoning_parser is not None,
                undeclared_calls=undeclared_calls,
            )

        reasoning = self._begins_in_reasoning()
        return (
            OpeningStream(open_stream) if reasoning is None else open_stream(reasoning)
        )

    def _open_stream(
        self, request: Request
    ) -> QwenDeltaStream | OpeningStream | ConstrainedStream:
        takes_json = self.takes_json(request)
        stream = self._open_delta_stream(
            {} if takes_json else callable_tools(request),
            takes_undeclared_calls(request),
        )
        if takes_json:
            return ConstrainedStream(stream, request.tool_choice)
        return stream

    def parse(
        self,
        model_output: str,
        request: Request,
        enable_auto_tools: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        self._stream = stream = self._open_stream(request)
        return assemble(stream.feed(model_output) + stream.end(request, *self._finish))

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

    def parse_deltas(
        self,
        delta_text: str,
        delta_token_ids: Sequence[int],
        request: Request,
        prompt_token_ids: Sequence[int] | None = None,
        *,
        finished: bool,
    ) -> list[DeltaMessage]:
        """Deltas of one step, each of one kind, in the order of the output."""
        if self._stream is None:
            if prompt_token_ids is not None:
                self.set_prompt_token_ids(prompt_token_ids)
            self._stream = self._open_stream(request)
        deltas = self._stream.feed(delta_text)
        if finished:
            deltas += self._stream.end(request, *self._finish)
        if not getattr(request, "include_reasoning", True):
            deltas = [delta for delta in deltas if delta.reasoning is None]
        if isinstance(self._tool_parser, QwenStreamingToolParser):
            self._tool_parser.record_streamed(deltas)
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
        return DeltaSequence.of(
            self.parse_deltas(
                delta_text,
                delta_token_ids,
                request,
                prompt_token_ids,
                finished=finished,
            )
        )


def reads_qwen_format(
    tool_parser_cls: type | None, reasoning_parser_name: str | None
) -> bool:
    """Whether :class:`QwenDelegatingParser` serves this pair of parsers."""
    if tool_parser_cls not in (QwenReaderToolParser, QwenReaderXMLToolParser):
        return False
    if reasoning_parser_name not in (None, "", "qwen3"):
        return False
    log_reader()
    return True
