# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Deltas of an output in the Qwen3-Coder tool-call format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from vllm.logger import init_logger
from vllm.parser.qwen_tool_compat import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
    iter_response_function_tool_info,
)
from vllm.parser.qwen_tool_reader import (
    TOOL_CALL_START,
    Event,
    EventType,
    QwenToolReader,
)
from vllm.parser.qwen_tool_values import ArgumentsWriter, ToolSchema

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

logger = init_logger(__name__)

TextDelta = Callable[[str], DeltaMessage]

# Looked up once, because every piece asks.
_VALUE, _CONTENT = EventType.VALUE, EventType.CONTENT


def callable_tools(
    request: ChatCompletionRequest | ResponsesRequest | None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Name and parameter schema of each tool that the output may call."""
    if request is not None and request.tools:
        tools = [] if request.tool_choice == "none" else request.tools
    schemas: dict[str, Any] = {}
    for tool in tools or ():
        function = getattr(tool, "function", None)
        if function is not None:
            schemas[function.name] = function.parameters
        else:
            schemas.update(iter_response_function_tool_info(tool))
    return schemas


def takes_undeclared_calls(request: Any) -> bool:
    """Whether a call may be to another function than the request's tools."""
    return request.tool_choice in (None, "auto")


def log_reader() -> None:
    """Say, once, that this reader is in use, and of which patches this vLLM is."""
    try:
        notes = metadata.distribution("vllm").read_text("patchset.json")
        names = [patch["name"] for patch in json.loads(notes or "{}")["patches"]]
    except (metadata.PackageNotFoundError, ValueError, LookupError, TypeError):
        names = []
    logger.info_once(
        "Qwen tool calls are read by QwenToolReader; VLLM_QWEN_TOOL_READER=0 brings "
        "back the stock parser.%s",
        f" Patches of this vLLM: {', '.join(names)}." if names else "",
    )


# ── Models ────────────────────────────────────────────────────────────


def _validated_text_of(field: str) -> TextDelta:
    """Makes deltas with text in *field*."""
    return lambda text: DeltaMessage(**{field: text})


def _validated_arguments_of(index: int) -> TextDelta:
    """Makes deltas that go on with the arguments of the call at *index*."""

    def delta(text: str) -> DeltaMessage:
        function = DeltaFunctionCall(arguments=text)
        return DeltaMessage(tool_calls=[DeltaToolCall(index=index, function=function)])

    return delta


def _fast_models() -> tuple[Callable[[str], TextDelta], Callable[[int], TextDelta]]:
    """The two above, as copies of a template that pydantic does not validate.

    Every token of every stream becomes such models, and validating them costs
    more than all the reading.

    Raises:
        Exception: This pydantic keeps the state of a model in another way.

    """
    slots = vars(BaseModel)
    set_fields = slots["__dict__"].__set__
    set_given = slots["__pydantic_fields_set__"].__set__
    set_extra = slots["__pydantic_extra__"].__set__
    set_private = slots["__pydantic_private__"].__set__
    new = object.__new__

    def text_of(field: str) -> TextDelta:
        template = DeltaMessage(**{field: ""})
        copy_fields = template.__dict__.copy
        has_extra = template.__pydantic_extra__ is not None

        def delta(text: str) -> DeltaMessage:
            fields = copy_fields()
            fields[field] = text
            fields["tool_calls"] = []
            message = new(DeltaMessage)
            set_fields(message, fields)
            set_given(message, {field})
            set_extra(message, {} if has_extra else None)
            set_private(message, None)
            return message

        return delta

    def arguments_of(index: int) -> TextDelta:
        templates = (
            DeltaFunctionCall(arguments=""),
            DeltaToolCall(index=index, function=DeltaFunctionCall()),
            DeltaMessage(tool_calls=[]),
        )
        function_fields, call_fields, message_fields = (
            template.__dict__.copy for template in templates
        )
        function_extra, call_extra, message_extra = (
            template.__pydantic_extra__ is not None for template in templates
        )

        def delta(text: str) -> DeltaMessage:
            fields = function_fields()
            fields["arguments"] = text
            function = new(DeltaFunctionCall)
            set_fields(function, fields)
            set_given(function, {"arguments"})
            set_extra(function, {} if function_extra else None)
            set_private(function, None)

            fields = call_fields()
            fields["function"] = function
            call = new(DeltaToolCall)
            set_fields(call, fields)
            set_given(call, {"index", "function"})
            set_extra(call, {} if call_extra else None)
            set_private(call, None)

            fields = message_fields()
            fields["tool_calls"] = [call]
            message = new(DeltaMessage)
            set_fields(message, fields)
            set_given(message, {"tool_calls"})
            set_extra(message, {} if message_extra else None)
            set_private(message, None)
            return message

        return delta

    for fast, validated in (
        (text_of("content"), _validated_text_of("content")),
        (text_of("reasoning"), _validated_text_of("reasoning")),
        (arguments_of(1), _validated_arguments_of(1)),
    ):
        if not _are_alike(fast("text"), validated("text")):
            raise TypeError("pydantic makes these models in another way")
    return text_of, arguments_of


def _are_alike(model: DeltaMessage, other: DeltaMessage) -> bool:
    """Whether two models are equal, and everything that is made of them."""
    return (
        model == other
        and model.model_fields_set == other.model_fields_set
        and repr(model) == repr(other)
        and all(
            model.model_dump(exclude_unset=exclude_unset)
            == other.model_dump(exclude_unset=exclude_unset)
            and model.model_dump_json(exclude_unset=exclude_unset)
            == other.model_dump_json(exclude_unset=exclude_unset)
            for exclude_unset in (False, True)
        )
        and model.model_copy(deep=True) == other
    )


try:
    _text_of, _arguments_of = _fast_models()
except Exception:
    logger.warning(
        "Deltas of Qwen outputs are validated one by one, which is slower: "
        "this version of pydantic is not known.",
        exc_info=True,
    )
    _text_of, _arguments_of = _validated_text_of, _validated_arguments_of

_content = _text_of("content")
_reasoning = _text_of("reasoning")


# ── Deltas ────────────────────────────────────────────────────────────


class QwenDeltaStream:
    """Turns one output, piece by piece, into deltas.

    A delta carries reasoning, or content, or one tool call, and the deltas of a
    piece come in the order of the output.

    Args:
        schemas: See :func:`callable_tools`.
        make_id: Makes the id of a call from its function's name.
        reasoning: Whether the output begins inside the reasoning.
        think_tags: Whether ``<think>`` and ``</think>`` are not just text.
        undeclared_calls: Whether other functions can be called as well.

    Attributes:
        opens_in_reasoning: Whether the output begins inside the reasoning.
        ended_spans: Spans of reasoning that a tag or a call ended.
        quoted_calls: ``<tool_call>`` tags that are text of the reasoning.

    """

    def __init__(
        self,
        schemas: dict[str, Any],
        make_id: Callable[[str], str],
        *,
        reasoning: bool = False,
        think_tags: bool = False,
        undeclared_calls: bool = True,
    ) -> None:
        self._schemas = schemas
        self._tools: dict[str, ToolSchema] = {}  # that were called
        self._make_id = make_id
        self._reader = QwenToolReader(
            schemas,
            lambda name: self._tool(name).names,
            reasoning=reasoning,
            think_tags=think_tags,
            undeclared_calls=undeclared_calls,
        )
        self.opens_in_reasoning = reasoning
        self.ended_spans = 0
        self.quoted_calls = 0
        self._calls = 0
        self._more_arguments: TextDelta
        self._writer = ArgumentsWriter(ToolSchema(None))

    @property
    def in_reasoning(self) -> bool:
        return self._reader.in_reasoning

    def feed(self, text: str) -> list[DeltaMessage]:
        """Read the next piece of the output."""
        reader = self._reader
        kind = None if "<" in text else reader.feed_plain(text)
        if kind is _CONTENT:
            return [_content(text)]
        if kind is None:
            events = reader.feed(text)
            if len(events) != 1:
                return self._deltas(events) if events else []
            kind, text = events[0]
            if kind is not _VALUE:
                return self._deltas(events)
        if kind is _VALUE:
            added = self._writer.value(text)
            return [self._more_arguments(added)] if added else []
        return [_reasoning(text)]

    def finish(self) -> list[DeltaMessage]:
        """Deliver what was held back until the output's end."""
        return self._deltas(self._reader.finish())

    def _tool(self, name: str) -> ToolSchema:
        if (tool := self._tools.get(name)) is None:
            tool = ToolSchema(self._schemas.get(name))
            self._tools[name] = tool
        return tool

    def _deltas(self, events: list[Event]) -> list[DeltaMessage]:
        deltas: list[DeltaMessage] = []
        kind: EventType | None = None  # of the delta that is being made
        name: str | None = None  # of the function, where the delta begins a call
        texts: list[str] = []
        for event, text in events:
            if event is EventType.REASONING_END:
                self.ended_spans += 1
                continue
            if event is EventType.REASONING:
                self.quoted_calls += text.count(TOOL_CALL_START)
            elif event is EventType.CALL:
                self._add_delta(deltas, kind, name, texts)
                kind, name, texts = event, text, []
                self._writer = ArgumentsWriter(self._tool(text))
                continue
            elif event is not EventType.CONTENT:
                text, event = self._arguments_text(event, text), EventType.CALL
            if event is not kind:
                self._add_delta(deltas, kind, name, texts)
                kind, name, texts = event, None, []
            texts.append(text)
        self._add_delta(deltas, kind, name, texts)
        return deltas

    def _arguments_text(self, event: EventType, text: str) -> str:
        """What an event of a call adds to its arguments."""
        writer = self._writer
        if event is EventType.VALUE:
            return writer.value(text)
        if event is EventType.PARAMETER:
            return writer.begin_parameter(text)
        return writer.end_value() if event is EventType.VALUE_END else writer.end()

    def _add_delta(
        self,
        deltas: list[DeltaMessage],
        kind: EventType | None,
        name: str | None,
        texts: list[str],
    ) -> None:
        text = "".join(texts)
        if name is not None:
            self._more_arguments = _arguments_of(self._calls)
            call = DeltaToolCall(
                id=self._make_id(name),
                type="function",
                index=self._calls,
                # Some clients want the arguments from the first delta on.
                function=DeltaFunctionCall(name=name, arguments=text),
            )
            self._calls += 1
            deltas.append(DeltaMessage(tool_calls=[call]))
        elif not text:
            return
        elif kind is EventType.CONTENT:
            deltas.append(_content(text))
        elif kind is EventType.REASONING:
            deltas.append(_reasoning(text))
        else:
            deltas.append(self._more_arguments(text))


def merge_deltas(deltas: list[DeltaMessage]) -> DeltaMessage | None:
    """One delta that holds all of *deltas*, their order given up."""
    if len(deltas) < 2:
        return deltas[0] if deltas else None
    calls: list[DeltaToolCall] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        for call in delta.tool_calls:
            if not calls or calls[-1].index != call.index:
                calls.append(call)
                arguments.append([])
            assert call.function is not None
            arguments[-1].append(call.function.arguments or "")
    for call, texts in zip(calls, arguments, strict=True):
        assert call.function is not None
        call.function.arguments = "".join(texts)
    merged = DeltaMessage()
    if reasoning := "".join(delta.reasoning or "" for delta in deltas):
        merged.reasoning = reasoning
    if content := "".join(delta.content or "" for delta in deltas):
        merged.content = content
    if calls:
        merged.tool_calls = calls
    return merged


def assemble(
    deltas: list[DeltaMessage],
) -> tuple[str | None, str | None, list[FunctionCall]]:
    """Reasoning, content and calls of a whole output."""
    merged = merge_deltas(deltas) or DeltaMessage()
    calls = [
        FunctionCall(
            id=call.id,
            name=call.function.name or "",
            arguments=call.function.arguments or "",
        )
        for call in merged.tool_calls
        if call.function is not None
    ]
    return merged.reasoning, merged.content, calls


def extract_tool_calls(
    stream: QwenDeltaStream, model_output: str
) -> ExtractedToolCallInformation:
    """What a tool parser says of a whole answer, read by a new *stream*."""
    _, content, calls = assemble(stream.feed(model_output) + stream.finish())
    return ExtractedToolCallInformation(
        tools_called=bool(calls),
        tool_calls=[ToolCall(id=call.id, function=call) for call in calls],
        content=content,
    )
