# SPDX-License-Identifier: Apache-2.0
"""Proof of open-item-deltas: a stream of /v1/responses resolves the state of few
deltas, and its bytes are those of one that resolves the state of each.
"""

from typing import Any

import pytest

from chunks import differences, times_called


def test_few_states_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.entrypoints.openai.responses import streaming_events

    cls, name = streaming_events.SimpleStreamingEventProcessor, "resolve_target_state"
    # One or two for each item.
    assert 1 <= times_called(monkeypatch, cls, name, "responses") <= 12


@pytest.mark.parametrize("fields", [{}, {"parallel_tool_calls": False}])
def test_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    from vllm.entrypoints.openai.responses import streaming_events

    def emit_more(*_: Any) -> None:
        return None

    cls = streaming_events.SimpleStreamingEventProcessor
    assert differences(monkeypatch, cls, emit_more, "responses", **fields) == []
