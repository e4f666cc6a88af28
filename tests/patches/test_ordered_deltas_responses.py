# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas-responses: the items are in the output's order, at every
width (D2, D10).
"""

import pytest

from harness import WIDTHS, arguments, ask, call, events

PREFACE = "Two calls:\n\n"
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
AFTER = "\nDone."
READ = [("read", {"path": "/a"}), ("read", {"path": "/b"})]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("after", ["", AFTER])
def test_responses(width: int, after: str) -> None:
    text = PREFACE + CALLS + after
    assert arguments(ask(text, width, surface="responses")) == READ
    items = [
        event["item"]["type"]
        for event in events(text, width, surface="responses")
        if event["type"] == "response.output_item.done"
    ]
    assert items == ["message", *(["function_call"] * 2), *["message"] * bool(after)]
