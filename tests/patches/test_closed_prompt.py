# SPDX-License-Identifier: Apache-2.0
"""Proof of closed-prompt: where the prompt closed the reasoning, the output is the
answer (E11).
"""

import pytest

from harness import THINKING, answer, call

OUTPUT = "Yes.\n" + call("read", ("path", "/a"))
READ = [("read", {"path": "/a"})]


@pytest.mark.parametrize("width", [None, 1, 100_000])
@pytest.mark.parametrize("surface", ["chat", "responses", "messages"])
def test_closed(surface: str, width: int | None) -> None:
    found = answer(OUTPUT, width, surface=surface, reasoning="qwen3", prompt="closed")
    assert found == ("", "Yes.", READ)


@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_open(width: int | None) -> None:
    assert answer("Hm.</think>" + OUTPUT, width, **THINKING) == ("Hm.", "Yes.", READ)
