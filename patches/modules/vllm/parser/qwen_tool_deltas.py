# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Deltas of an output in the Qwen3-Coder tool-call format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from vllm.logger import init_logger
from vllm.parser.qwen_tool_answer import Event, EventType
from vllm.parser.qwen_tool_reader import QwenToolReader
from vllm.parser.qwen_tool_tokens import FUNCTION_END, TOOL_CALL_END, TOOL_CALL_START
from vllm.parser.qwen_tool_values import ArgumentsWriter, ToolSchema

try:
    from vllm.entrypoints.generate.base.protocol import (
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
        FunctionCall,
    )
    from vllm.renderers.chat_utils import make_tool_call_id as make_tool_call_id
    from vllm.tool_parsers.utils import iter_response_function_tool_info
except ImportError:  # before v0.32.0
    from vllm.parser.qwen_tool_compat import (  # type: ignore[no-redef]
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
        FunctionCall,
        iter_response_function_tool_info,
    )
    from vllm.parser.qwen_tool_compat import (
        make_tool_call_id as make_tool_call_id,
    )

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

logger = init_logger(__name__)

# Stop strings that say what the model's own end says.
_CLOSING_TAGS = (FUNCTION_END, TOOL_CALL_END)
_ENDS = (*_CLOSING_TAGS, "<|im_end|>", "<|endoftext|>")


def callable_tools(
    request: ChatCompletionRequest | ResponsesRequest | None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Name and parameter schema of each tool that the output may call."""
    if request is not None and request.tools:
        # Serving drops the calls of an answer without a tool choice: they are text.
        tools = [] if request.tool_choice in (None, "none") else request.tools
    schemas: dict[str, Any] = {}
    for tool in tools or ():
        function = getattr(tool, "function", None)
        if function is not None:
            schemas[function.name] = function.parameters
        else:
            schemas.update(iter_response_function_tool_info(tool))
    choice = getattr(request, "tool_choice", None)
    if (allowed := getattr(choice, "tools", None)) is not None:  # /v1/responses
        names = {str(tool.get("name")) for tool in allowed}
        return {name: schema for name, schema in schemas.items() if name in names}
    # A request that names its tool takes no call of another.
    named = getattr(getattr(choice, "function", choice), "name", None)
    return {named: schemas[named]} if named in schemas else schemas


def takes_undeclared_calls(request: Any) -> bool:
    """Whether a call may be to another function than the request's tools."""
    return request.tool_choice == "auto"


def requires_call(request: Any) -> bool:
    """Whether a grammar lets the answer begin with a call alone."""
    choice = request.tool_choice
    named = getattr(getattr(choice, "function", choice), "name", None)
    return choice == "required" or isinstance(named, str)


def log_reader() -> None:
    """Say, once, that this reader is in use."""
    logger.info_once(
        "Qwen tool calls are read by QwenToolReader; VLLM_QWEN_TOOL_READER=0 brings "
        "back the stock parser."
    )


def log_other_parser(name: str, cls: type) -> None:
    """Say, once, that a class of a plugin reads the calls in place of this reader."""
    logger.warning_once(
        "The tool parser %s is the class %s.%s of a plugin, which reads the calls; "
        "QwenToolReader does not.",
        name,
        cls.__module__,
        cls.__qualname__,
    )


def is_cut(finish_reason: str | None, stop_reason: int | str | None) -> bool:
    """Whether an output ends before the model ended it.

    A stop string cuts, unless it is what a call ends with, or the model's turn.
    """
    if finish_reason == "stop":
        return isinstance(stop_reason, str) and stop_reason.strip() not in _ENDS
    return finish_reason is not None


# Models.


# Requests may have fields that vLLM does not know, which it logs. These models are
# made here, and looking for such fields takes more time than all the rest of them.


class _ToolCall(DeltaToolCall):
    @model_validator(mode="after")
    def __log_extra_fields__(self) -> _ToolCall:
        return self


class _Message(DeltaMessage):
    tool_calls: list[_ToolCall] = Field(default_factory=list)

    @model_validator(mode="after")
    def __log_extra_fields__(self) -> _Message:
        return self


# `model_validate` calls this, and takes time of its own for each delta.
_validate = _Message.__pydantic_validator__.validate_python


def text_message(kind: str | int, text: str) -> DeltaMessage:
    """Make a delta of text alone.

    Args:
        kind: The field that holds it, or the index of the call whose arguments go on.
        text: What is added.

    """
    if isinstance(kind, str):
        return _validate({kind: text})
    # Validated as one, which takes less time than three models do.
    return _validate({"tool_calls": [{"index": kind, "function": {"arguments": text}}]})


# Deltas.


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
        constrained: Whether a grammar requires a call.
        prefix: Text of the answer that the prompt ends in.
        keeps_space: Whether white space between the answer and a call stays.

    Attributes:
        opens_in_reasoning: Whether the output begins inside the reasoning.
        quoted_calls: ``<tool_call>`` tags that are text of the reasoning.
        call_is_cut: Whether the output ended within its last call, whose
            arguments then end where the output did.
        make_text: Makes a delta that is all there is of a piece; see
            :func:`text_message`.

    """

    def __init__(
        self,
        schemas: dict[str, Any],
        make_id: Callable[[str], str],
        *,
        reasoning: bool = False,
        think_tags: bool = False,
        undeclared_calls: bool = True,
        constrained: bool = False,
        prefix: str = "",
        keeps_space: bool = False,
    ) -> None:
        self._schemas = schemas
        self._tools: dict[str, ToolSchema] = {}  # that were called
        self._make_id = make_id
        self._reader = QwenToolReader(
            schemas,
            lambda name: self._tool(name).names,
            required_of=lambda name: self._tool(name).required,
            takes_json=lambda name, key: self._tool(name).takes_json(key),
            reasoning=reasoning,
            think_tags=think_tags,
            undeclared_calls=undeclared_calls,
            constrained=constrained,
            prefix=prefix,
            keeps_space=keeps_space,
        )
        self.opens_in_reasoning = reasoning
        self.quoted_calls = 0
        self.call_is_cut = False
        self.make_text: Callable[[str | int, str], Any] = text_message
        self._raw: list[str] | None = None  # the output, where it may be logged
        if logger.isEnabledFor(logging.DEBUG):
            self._raw = []
        self._calls = 0
        self._writer = ArgumentsWriter(ToolSchema(None))

    @property
    def in_reasoning(self) -> bool:
        return self._reader.in_reasoning

    def feed(self, text: str) -> list[DeltaMessage]:
        """Read the next piece of the output."""
        if self._raw is not None:
            self._raw.append(text)
        events = self._reader.feed(text)
        if len(events) == 1:  # as most are
            event, text = events[0]
            kind: str | int | None = None
            if event == EventType.VALUE:
                kind, text = self._calls - 1, self._writer.value(text)
            elif event == EventType.CONTENT:
                kind = "content"
            elif event == EventType.REASONING:
                kind = "reasoning"
                self.quoted_calls += text.count(TOOL_CALL_START)
            if kind is not None:
                return [self.make_text(kind, text)] if text else []
        return self._deltas(events) if events else []

    def end(
        self,
        request: ChatCompletionRequest | ResponsesRequest,
        finish_reason: str | None,
        stop_reason: int | str | None,
    ) -> list[DeltaMessage]:
        """Deliver what was held back until the output's end, which engines tell."""
        deltas: list[DeltaMessage] = []
        stopped = False
        if finish_reason == "stop" and isinstance(stop_reason, str):
            stopped = stop_reason.strip() in _CLOSING_TAGS
            is_left_out = not getattr(request, "include_stop_str_in_output", False)
            if stopped and is_left_out and self._reader.in_call:
                # A stop string is left out of the output; this may be the call's own.
                deltas = self.feed(stop_reason)
        cut = is_cut(finish_reason, stop_reason)
        return deltas + self.finish(cut, stopped=stopped)

    def finish(self, cut: bool = False, *, stopped: bool = False) -> list[DeltaMessage]:
        """Deliver what was held back until the output's end.

        Args:
            cut: See :func:`is_cut`.
            stopped: See :meth:`QwenToolReader.finish`.

        """
        deltas = self._deltas(self._reader.finish(cut, stopped=stopped))
        outcomes = self.outcomes
        if self._raw is not None and any(
            outcomes[name] for name in ("held", "forgiven", "cut")
        ):
            logger.debug("Tool calls: %s; output: %r", outcomes, "".join(self._raw))
        return deltas

    @property
    def outcomes(self) -> dict[str, int]:
        """How many calls were read in which way; see ``qwen_tool_outcomes``."""
        found = {**self._reader.outcomes, "cut": int(self.call_is_cut)}
        plain = self._calls - sum(found.values()) + found["text"]
        return {"plain": max(plain, 0), **found}

    def _tool(self, name: str) -> ToolSchema:
        if (tool := self._tools.get(name)) is None:
            tool = ToolSchema(self._schemas.get(name))
            self._tools[name] = tool
        return tool

    def _deltas(self, events: list[Event]) -> list[DeltaMessage]:
        deltas: list[DeltaMessage] = []
        kind: str | None = None  # of the delta that is being made
        name: str | None = None  # of the function, where the delta begins a call
        texts: list[str] = []
        for event, text in events:
            if event == EventType.VALUE:
                text, event = self._writer.value(text), EventType.CALL
            elif event == EventType.REASONING_END:
                continue
            elif event == EventType.REASONING:
                self.quoted_calls += text.count(TOOL_CALL_START)
            elif event == EventType.CALL:
                self._add_delta(deltas, kind, name, texts)
                self._writer = ArgumentsWriter(self._tool(text))
                kind, name, texts = event, text, [self._writer.begin()]
                continue
            elif event != EventType.CONTENT:
                text, event = self._arguments_text(event, text), EventType.CALL
            if event != kind:
                self._add_delta(deltas, kind, name, texts)
                kind, name, texts = event, None, []
            texts.append(text)
        self._add_delta(deltas, kind, name, texts)
        return deltas

    def _arguments_text(self, event: str, text: str) -> str:
        """What an event of a call adds to its arguments."""
        writer = self._writer
        if event == EventType.PARAMETER:
            return writer.begin_parameter(text)
        if event == EventType.VALUE_END:
            return writer.end_value()
        if event == EventType.CALL_CUT:
            self.call_is_cut = True
            return ""
        return writer.end()

    def _add_delta(
        self,
        deltas: list[DeltaMessage],
        kind: str | None,
        name: str | None,
        texts: list[str],
    ) -> None:
        text = "".join(texts)
        if name is not None:
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
        elif kind == EventType.CONTENT:
            deltas.append(text_message("content", text))
        elif kind == EventType.REASONING:
            deltas.append(text_message("reasoning", text))
        else:
            deltas.append(text_message(self._calls - 1, text))


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
