# SPDX-License-Identifier: Apache-2.0
"""Proof of prompt-ends-reasoning: after a prompt that closes the reasoning all is
content (E11).
"""

import pytest

from harness import ask


@pytest.mark.parametrize("width", [None, 1])
def test_content(width: int | None) -> None:
    reading = ask("The answer.", width, reasoning="qwen3", prompt="closed")
    assert (reading.reasoning, reading.content) == ("", "The answer.")
