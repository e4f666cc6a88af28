# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-end: a stream of ``/v1/messages`` ends with its last event,
which is JSON like the others (E8).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import call, raw


def _event(data: str) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise AssertionError(f"an event is no JSON: {data!r}") from error
    return event


@pytest.mark.parametrize("width", [1, 100_000])
def test_every_event_is_json(width: int) -> None:
    from conformance.reading import sse

    status, answer = raw(
        "Well.\n" + call("read", ("path", "/a")), width, surface="messages"
    )
    assert status == 200
    events = [_event(data) for _, data in sse(answer)]
    assert events[-1]["type"] == "message_stop"
