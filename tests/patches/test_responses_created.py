# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-created: a stream of /v1/responses begins where the request's
calls are constrained by a schema (E12).
"""

import json

import pytest

from harness import WIDTHS, arguments, ask

CALLS = [
    {"name": "read", "parameters": {"path": "/a"}},
    {"name": "read", "parameters": {"path": "/b"}},
]


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_required(width: int | None) -> None:
    reading = ask(json.dumps(CALLS), width, surface="responses", tool_choice="required")
    assert arguments(reading) == [("read", {"path": "/a"}), ("read", {"path": "/b"})]
