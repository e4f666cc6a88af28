# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-end: a stream of ``/v1/messages`` ends with its last event,
which is JSON like the others (E8).
"""

import pytest

from conformance.reading import sse
from harness import call, parsed, raw


@pytest.mark.parametrize("width", [1, 100_000])
def test_every_event_is_json(width: int) -> None:
    output = "Well.\n" + call("read", ("path", "/a"))
    status, answer = raw(output, width, surface="messages")
    assert status == 200
    events = [parsed(data) for _, data in sse(answer)]
    assert events[-1]["type"] == "message_stop"
