# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-items: a stream of ``/v1/responses`` carries reasoning, text
and every call (E2, D2).
"""

from __future__ import annotations

import pytest

from harness import THINKING, WIDTHS, answer, call

OUTPUT = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("write", ("content", "x\n"))
    + "\nThen."
)


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_responses(width: int | None) -> None:
    calls = [("read", {"path": "/a"}), ("write", {"content": "x\n"})]
    found = answer(OUTPUT, width, surface="responses", **THINKING)
    assert found == ("Hm.", "First.\nThen.", calls)
