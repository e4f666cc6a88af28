# SPDX-License-Identifier: Apache-2.0
"""Proof of masked-openings: a tag at which no answer can begin is not said."""

from typing import Any

import pytest

from grammar import said, stop
from harness import THINKING, TOOLS

JSON = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize("k", [0, 1, 3, 5])
@pytest.mark.parametrize("tools", [[], TOOLS], ids=["no tools", "tools"])
def test_it_is_masked_while_the_model_reasons(k: int, tools: list[object]) -> None:
    options: dict[str, Any] = {**JSON, **THINKING, "tools": tools}
    assert said("I call\n<tool_call>\n<function=", k, **options) == "I call\n"
    assert stop('I call it.</think>{"a": 1}', k, **options) is None
