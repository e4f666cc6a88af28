# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Chunks of a stream that differ from those before them in a piece of text alone.

To build and write such a chunk with pydantic takes longer than all else that is done
for it.  So pydantic writes one example of each kind, and the others are its JSON with
another string in the place of the example's.  A chunk that says anything else, or is
of a class that is not known here, has no example.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic_core import to_json

try:
    from vllm.entrypoints.generate.base.protocol import DeltaMessage
except ImportError:  # before v0.32.0
    from vllm.entrypoints.openai.engine.protocol import (  # type: ignore[no-redef]
        DeltaMessage,
    )

# Text of an example, which nobody else can have written.
MARK = uuid.uuid4().hex


class Frame(NamedTuple):
    """JSON around a string."""

    head: str
    tail: str

    def write(self, text: str) -> str:
        # As pydantic writes it.
        return f"{self.head}{to_json(text).decode()}{self.tail}"


def frame_of(example: str) -> Frame:
    """The frame of an example, whose text is ``MARK``."""
    head, tail = example.split(f'"{MARK}"')
    return Frame(head, tail)


# Chat.


class TextDelta:
    """Stands for a ``DeltaMessage`` that holds one piece of text and nothing else.

    Where the text is of a call's arguments, it stands for that call and for the call's
    function as well.

    Attributes:
        kind: The message's field, ``content`` or ``reasoning``, or the call's index.
        text: What is added.

    """

    __slots__ = ("kind", "text")

    id = name = role = type = None

    def __init__(self, kind: str | int, text: str) -> None:
        self.kind = kind
        self.text = text

    def message(self) -> DeltaMessage:
        """The model that it stands for."""
        if isinstance(self.kind, str):
            return DeltaMessage.model_validate({self.kind: self.text})
        call = {"index": self.kind, "function": {"arguments": self.text}}
        return DeltaMessage.model_validate({"tool_calls": [call]})

    @property
    def content(self) -> str | None:
        return self.text if self.kind == "content" else None

    @property
    def reasoning(self) -> str | None:
        return self.text if self.kind == "reasoning" else None

    @property
    def tool_calls(self) -> tuple[TextDelta, ...]:
        return () if isinstance(self.kind, str) else (self,)

    @property
    def index(self) -> str | int:
        return self.kind

    @property
    def function(self) -> TextDelta:
        return self

    @property
    def arguments(self) -> str:
        return self.text


class TextChunk(NamedTuple):
    """Stands for a ``ChatCompletionStreamResponse`` with one choice, whose delta is
    a piece of text.
    """

    delta: DeltaMessage | TextDelta
    text: str
    frame: Frame
    finish_reason = None
    stop_reason = None

    @property
    def choices(self) -> tuple[TextChunk]:
        return (self,)

    def model_dump_json(self, **_: Any) -> str:
        return self.frame.write(self.text)


class TextChunks:
    """Makes the text chunks of a stream.

    Args:
        make_chunk: Makes the model of a chunk from a choice's index and delta.

    """

    delta_cls = TextDelta  # for a parser that hands over text as it is

    def __init__(self, make_chunk: Callable[[int, DeltaMessage], Any]) -> None:
        self._make_chunk = make_chunk
        self._frames: dict[tuple[int, str | int, type], Frame | None] = {}

    def chunk(self, index: int, delta: DeltaMessage | TextDelta) -> TextChunk | None:
        """The chunk of a delta; ``None`` if it must be built as any other."""
        if isinstance(delta, TextDelta):
            kind, text = delta.kind, delta.text
        else:
            text_of = _text_of(delta)
            if text_of is None:
                return None
            kind, text = text_of
        key = index, kind, type(delta)
        if key not in self._frames:
            self._frames[key] = self._example(index, delta)
        frame = self._frames[key]
        return None if frame is None else TextChunk(delta, text, frame)

    def _example(self, index: int, delta: DeltaMessage | TextDelta) -> Frame | None:
        if isinstance(delta, TextDelta):
            delta = delta.message()
        if not _is_written_as_delta_message(type(delta)):
            return None
        delta = delta.model_copy(deep=True)
        if delta.tool_calls:
            assert delta.tool_calls[0].function is not None
            delta.tool_calls[0].function.arguments = MARK
        elif delta.content is not None:
            delta.content = MARK
        else:
            delta.reasoning = MARK
        chunk = self._make_chunk(index, delta)
        return frame_of(chunk.model_dump_json(exclude_unset=True))


def _text_of(delta: DeltaMessage) -> tuple[str | int, str] | None:
    """The field that is the delta's only one, or the index of the call whose
    arguments go on, and its text.
    """
    if delta.__pydantic_extra__ or len(delta.__pydantic_fields_set__) != 1:
        return None
    (field,) = delta.__pydantic_fields_set__
    kind: str | int = field
    text: str | None = None
    if field == "tool_calls" and len(delta.tool_calls) == 1:
        (call,) = delta.tool_calls
        function = call.function
        if (
            function is not None
            and call.__pydantic_fields_set__ == {"index", "function"}
            and function.__pydantic_fields_set__ == {"arguments"}
            and not (call.__pydantic_extra__ or function.__pydantic_extra__)
        ):
            kind, text = call.index, function.arguments
    elif field == "content":
        text = delta.content
    elif field == "reasoning":
        text = delta.reasoning
    return (kind, text) if isinstance(text, str) else None


@functools.cache
def _is_written_as_delta_message(cls: type[DeltaMessage]) -> bool:
    """Whether a class adds nothing to how its base is written as JSON."""
    mine, base = cls.__pydantic_decorators__, DeltaMessage.__pydantic_decorators__
    return (
        cls.model_fields.keys() == DeltaMessage.model_fields.keys()
        and mine.model_serializers.keys() == base.model_serializers.keys()
        and mine.field_serializers.keys() == base.field_serializers.keys()
    )


# Responses.


class TextEvent:
    """Stands for an event of a piece of text."""

    __slots__ = ("_parts", "delta", "sequence_number", "type")

    def __init__(self, type_: str, parts: list[str], text: str) -> None:
        self.type = type_
        self.sequence_number = -1
        self._parts = parts
        self.delta = text

    def model_dump_json(self, **_: Any) -> str:
        head, middle, tail = self._parts
        text = to_json(self.delta).decode()  # as pydantic writes it
        return f"{head}{text}{middle}{self.sequence_number}{tail}"


_NUMBER = '"sequence_number":'


class TextEvents:
    """Makes the text events of an item, and of those behind it."""

    delta_cls = TextDelta

    def __init__(self) -> None:
        self._item_id = ""
        self._type = ""
        # JSON around the text and the number; none if they cannot be told apart.
        self._parts: list[str] = []

    def event(self, item_id: str, make_event: Callable[[str], Any], text: str) -> Any:
        """The event of a piece of text; ``make_event`` makes its model."""
        if item_id != self._item_id:
            example = make_event(MARK)
            frame = frame_of(example.model_dump_json(by_alias=True))
            head, number, tail = frame.tail.partition(f"{_NUMBER}-1")
            is_numbered = number and _NUMBER not in head + tail
            self._parts = [frame.head, head + _NUMBER, tail] if is_numbered else []
            self._item_id, self._type = item_id, example.type
        if not self._parts:
            return make_event(text)
        return TextEvent(self._type, self._parts, text)
