# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Events of ``/v1/responses`` for an output that comes in deltas of one kind.

Each output item (a reasoning, a message, a function call) is added, filled and
done before the next one is added.
"""

from __future__ import annotations

from typing import Any

from openai.types.responses import (
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningTextDeltaEvent,
    ResponseReasoningTextDoneEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
)
from openai.types.responses.response_reasoning_item import (
    Content as ResponseReasoningTextContent,
)

from vllm.entrypoints.openai.engine.protocol import DeltaMessage
from vllm.entrypoints.openai.responses.protocol import (
    ResponseReasoningPartAddedEvent,
    ResponseReasoningPartDoneEvent,
)
from vllm.utils import random_uuid


class _Item:
    """An output item under way.  ``at`` says where its events belong."""

    def __init__(self, output_index: int, prefix: str) -> None:
        self.id = f"{prefix}_{random_uuid()}"
        self.texts: list[str] = []
        self.at: dict[str, Any] = {
            "sequence_number": -1,
            "output_index": output_index,
            "item_id": self.id,
        }

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def added(self, item: Any) -> ResponseOutputItemAddedEvent:
        return ResponseOutputItemAddedEvent(
            type="response.output_item.added",
            sequence_number=-1,
            output_index=self.at["output_index"],
            item=item,
        )

    def item_done(self, item: Any) -> ResponseOutputItemDoneEvent:
        return ResponseOutputItemDoneEvent(
            type="response.output_item.done",
            sequence_number=-1,
            output_index=self.at["output_index"],
            item=item,
        )


class _Reasoning(_Item):
    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, "rs")
        self.at["content_index"] = 0

    def _item(self, status: str) -> ResponseReasoningItem:
        content = [ResponseReasoningTextContent(text=self.text, type="reasoning_text")]
        return ResponseReasoningItem(
            id=self.id,
            type="reasoning",
            summary=[],
            content=content if status == "completed" else None,
            status=status,
        )

    def begin(self) -> list[Any]:
        part = ResponseReasoningTextContent(text="", type="reasoning_text")
        return [
            self.added(self._item("in_progress")),
            ResponseReasoningPartAddedEvent(
                type="response.reasoning_part.added", part=part, **self.at
            ),
        ]

    def delta(self, text: str, logprobs: list[Any]) -> Any:
        return ResponseReasoningTextDeltaEvent(
            type="response.reasoning_text.delta", delta=text, **self.at
        )

    def done(self) -> list[Any]:
        part = ResponseReasoningTextContent(text=self.text, type="reasoning_text")
        return [
            ResponseReasoningTextDoneEvent(
                type="response.reasoning_text.done", text=self.text, **self.at
            ),
            ResponseReasoningPartDoneEvent(
                type="response.reasoning_part.done", part=part, **self.at
            ),
            self.item_done(self._item("completed")),
        ]


class _Message(_Item):
    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, "msg")
        self.at["content_index"] = 0

    def _part(self) -> ResponseOutputText:
        return ResponseOutputText(
            type="output_text", text=self.text, annotations=[], logprobs=[]
        )

    def _item(self, status: str) -> ResponseOutputMessage:
        return ResponseOutputMessage(
            id=self.id,
            type="message",
            role="assistant",
            content=[self._part()] if status == "completed" else [],
            status=status,
        )

    def begin(self) -> list[Any]:
        return [
            self.added(self._item("in_progress")),
            ResponseContentPartAddedEvent(
                type="response.content_part.added", part=self._part(), **self.at
            ),
        ]

    def delta(self, text: str, logprobs: list[Any]) -> Any:
        return ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta=text,
            logprobs=logprobs,
            **self.at,
        )

    def done(self) -> list[Any]:
        return [
            ResponseTextDoneEvent(
                type="response.output_text.done",
                text=self.text,
                logprobs=[],
                **self.at,
            ),
            ResponseContentPartDoneEvent(
                type="response.content_part.done", part=self._part(), **self.at
            ),
            self.item_done(self._item("completed")),
        ]


class _Call(_Item):
    def __init__(self, output_index: int, call: Any) -> None:
        super().__init__(output_index, "fc")
        self.index = call.index
        self._name = call.function.name
        self._call_id = call.id

    def _item(self, status: str) -> ResponseFunctionToolCall:
        return ResponseFunctionToolCall(
            id=self.id,
            call_id=self._call_id,
            type="function_call",
            name=self._name,
            arguments="" if status == "in_progress" else self.text,
            status=status,
        )

    def begin(self) -> list[Any]:
        return [self.added(self._item("in_progress"))]

    def delta(self, text: str, logprobs: list[Any]) -> Any:
        return ResponseFunctionCallArgumentsDeltaEvent(
            type="response.function_call_arguments.delta", delta=text, **self.at
        )

    def done(self) -> list[Any]:
        return [
            ResponseFunctionCallArgumentsDoneEvent(
                type="response.function_call_arguments.done",
                arguments=self.text,
                name=self._name,
                **self.at,
            ),
            self.item_done(self._item("completed")),
        ]

    def cut(self) -> list[Any]:
        """Events of a call within which the output ended: nothing in it is done."""
        return [self.item_done(self._item("incomplete"))]


class ItemEvents:
    """Turns deltas of one kind into the events of their output items."""

    def __init__(self) -> None:
        self._open: _Reasoning | _Message | _Call | None = None
        self._count = 0

    def of(self, delta: DeltaMessage, logprobs: list[Any]) -> list[Any]:
        """Events of one delta; *logprobs* go with text of a message."""
        events: list[Any] = []
        if delta.tool_calls:
            for call in delta.tool_calls:
                same = isinstance(self._open, _Call) and self._open.index == call.index
                if not same:
                    events += self._begin(_Call(self._count, call))
                self._fill(call.function.arguments, [], events)
        elif delta.reasoning:
            if not isinstance(self._open, _Reasoning):
                events += self._begin(_Reasoning(self._count))
            self._fill(delta.reasoning, [], events)
        elif delta.content:
            if not isinstance(self._open, _Message):
                events += self._begin(_Message(self._count))
            self._fill(delta.content, logprobs, events)
        return events

    def end(self, cut: bool = False) -> list[Any]:
        """Events that end the item under way; *cut* if it is a call that is cut."""
        item, self._open = self._open, None
        if cut and isinstance(item, _Call):
            return item.cut()
        return item.done() if item is not None else []

    def _begin(self, item: _Reasoning | _Message | _Call) -> list[Any]:
        events = self.end()
        self._open = item
        self._count += 1
        return events + item.begin()

    def _fill(self, text: str | None, logprobs: list[Any], events: list[Any]) -> None:
        if text:
            self._open.texts.append(text)
            events.append(self._open.delta(text, logprobs))
