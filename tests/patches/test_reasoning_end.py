# SPDX-License-Identifier: Apache-2.0
"""Proof of reasoning-end: the step in which the reasoning ends is no error."""

import pytest

from grammar import stop
from harness import THINKING, call

READ = call("read", ("path", "/x"))


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("space", ["", "\n\n"])
@pytest.mark.parametrize("thought", ["Hm.", "I read it, and then think on."])
def test_a_required_call_behind_the_reasoning(thought: str, space: str, k: int) -> None:
    output = f"{thought}</think>{space}{READ}"
    assert stop(output, k, tool_choice="required", **THINKING) is None
