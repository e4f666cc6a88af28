# SPDX-License-Identifier: Apache-2.0
"""The events of output items: each item of ``/v1/responses`` is added, filled and
done before the next.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest


def _items() -> Any:
    module = "vllm.entrypoints.openai.responses.item_events"
    assert importlib.util.find_spec(module), (
        "nothing here keeps the events of output items apart"
    )
    return importlib.import_module(module).ItemEvents()


def _call(index: int, name: str | None, arguments: str) -> Any:
    from vllm.entrypoints.openai.engine.protocol import (
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
    )

    function = DeltaFunctionCall(name=name, arguments=arguments)
    return DeltaMessage(
        tool_calls=[
            DeltaToolCall(index=index, id=name and f"call_{index}", function=function)
        ]
    )


def test_items() -> None:
    from vllm.entrypoints.openai.engine.protocol import DeltaMessage

    items, events = _items(), []
    for delta in (
        DeltaMessage(reasoning="r"),
        DeltaMessage(reasoning="s"),
        DeltaMessage(content="c"),
        _call(0, "f", "{"),
        _call(0, None, "}"),
        _call(1, "g", "{}"),
        DeltaMessage(content="d"),
    ):
        events += items.of(delta, [])
    events += items.end()
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "message",
    ]
    assert [
        done[0].content[0].text,
        done[1].content[0].text,
        done[4].content[0].text,
    ] == ["rs", "c", "d"]
    assert [(one.name, one.arguments, one.call_id) for one in done[2:4]] == [
        ("f", "{}", "call_0"),
        ("g", "{}", "call_1"),
    ]
    under_way: str | None = None
    for event in events:
        if event.type == "response.output_item.added":
            assert under_way is None
            under_way = event.item.id
        elif event.type == "response.output_item.done":
            assert event.item.id == under_way
            under_way = None
        else:
            assert event.item_id == under_way
    assert [
        event.output_index for event in events if event.type.endswith("item.done")
    ] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("empty", ["", None])
def test_nothing_gives_no_item(empty: str | None) -> None:
    from vllm.entrypoints.openai.engine.protocol import DeltaMessage

    items = _items()
    assert items.of(DeltaMessage(content=empty), []) + items.end() == []
