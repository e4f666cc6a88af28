# SPDX-License-Identifier: Apache-2.0
"""A message of the assistant that the model goes on with opens the fence, or the
quotation, in which the output's first call stands (R6).
"""

from typing import Any

import pytest

from harness import answer, call

READ = call("read", ("path", "/a"))


#: What Qwen's template writes before an answer without reasoning.
CLOSED = "<think>\n\n</think>\n\n"


def go_on(prefix: str, output: str, width: int | None) -> Any:
    """Return reasoning, text and calls behind a prefix."""
    messages = [
        {"role": "user", "content": "How is a call written?"},
        {"role": "assistant", "content": CLOSED + prefix},
    ]
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    return answer(output, width, reasoning="qwen3", messages=messages, **fields)


@pytest.mark.parametrize("width", [None, 1, 4, 100_000])
@pytest.mark.parametrize("prefix", ["Like this:\n```xml\n", "Write `"])
def test_quoted(prefix: str, width: int | None) -> None:
    mark = "`" if prefix.endswith("`") else "\n```"
    text = READ + mark + " and so on."
    assert go_on(prefix, text, width) == ("", text, [])


@pytest.mark.parametrize("width", [None, 1, 100_000])
@pytest.mark.parametrize("prefix", ["I look at it.\n", "```\nx\n```\nNow:\n"])
def test_plain(prefix: str, width: int | None) -> None:
    assert go_on(prefix, READ, width) == ("", "", [("read", {"path": "/a"})])
