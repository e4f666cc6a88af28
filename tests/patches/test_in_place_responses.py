# SPDX-License-Identifier: Apache-2.0
"""Proof of in-place-responses: no step of a stream of /v1/responses copies the text
before it.
"""

from collections.abc import Callable
from typing import Any

import pytest

from harness import copies_nothing

PIECE = "some words of an answer "


def of_context() -> Callable[[], Any]:
    from vllm.entrypoints.openai.responses.context import SimpleContext
    from vllm.outputs import CompletionOutput, RequestOutput

    context = SimpleContext()
    output = CompletionOutput(0, PIECE, [1], None, None)
    step = RequestOutput("1", "hello", [1], None, [output], False)
    return lambda: context.append_output(step)


def of_item(kind: str) -> Callable[[], Any]:
    from vllm.entrypoints.openai.responses import streaming_events as events

    state = events.SimpleStreamingState()
    if kind == "tool_call":
        events.emit_simple_tool_call_open(state, "write", 0)
    else:
        getattr(events, f"emit_simple_{kind}_open")(state)
    delta = getattr(events, f"emit_simple_{kind}_delta")
    return lambda: delta(state, PIECE)


@pytest.mark.parametrize("kind", ["context", "content", "reasoning", "tool_call"])
def test_no_copies(kind: str) -> None:
    step = of_context() if kind == "context" else of_item(kind)

    def grow() -> int:
        for _ in range(10_000):
            step()
        return 10_000 * len(PIECE)

    copies_nothing(grow, step)
