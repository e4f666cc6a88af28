# SPDX-License-Identifier: Apache-2.0
"""Proof of single-call-grammar: the first call alone needs no grammar."""

from typing import Any

import pytest

import harness
from grammar import said
from harness import arguments, call, tool

ONE: dict[str, Any] = {"parallel_tool_calls": False}
REMOVE = {"command": "rm -rf build"}
QUOTED = call("bash", ("command", REMOVE["command"]))
TOOLS = [*harness.TOOLS, tool("bash", harness.strings("command"))]
#: Text with a call that is only quoted.
TEXTS = {
    "code fence": f"Never run:\n```xml\n{QUOTED}\n```\nIt removes all.",
    "tilde fence": f"Never run:\n~~~\n{QUOTED}\n~~~\nIt removes all.",
    "backticks": f"Never run `{QUOTED}` here.",
    "list": f"- {QUOTED}\n- the other",
    "quote mark": f"> {QUOTED}\nsays the page.",
    "quotes": f'It wrote "{QUOTED}" yesterday.',
    "brackets": f"The call ({QUOTED}) removes all.",
    "table": f"| {QUOTED} | removes |",
    "emphasis": f"*{QUOTED}* removes all.",
    "fence in a list": f"1. This:\n   ```\n   {QUOTED}\n   ```\n2. That.",
}
#: Files with one.
FILES = [f"Look:\n{QUOTED}\nNever.", f"```\n{QUOTED}\n```\nEnd.", f"a\n{QUOTED}\n\nb\n"]


@pytest.mark.parametrize("k", [0, 3, 5])
@pytest.mark.parametrize("name", TEXTS)
def test_nothing_quoted_runs(name: str, k: int) -> None:
    output = said(TEXTS[name], k, tools=TOOLS, **ONE)
    for width in (k + 1, None):
        reading = harness.ask(output, width, tools=TOOLS, **ONE)
        assert arguments(reading) == []
        assert reading.content == TEXTS[name]


@pytest.mark.parametrize("k", [0, 3, 5])
@pytest.mark.parametrize("value", FILES)
def test_no_file_ends_early(value: str, k: int) -> None:
    output = call("write", ("path", "a"), ("content", value))
    output = said(output, k, tools=TOOLS, **ONE)
    for width in (k + 1, None):
        reading = harness.ask(output, width, tools=TOOLS, **ONE)
        assert arguments(reading) == [("write", {"path": "a", "content": value})]


@pytest.mark.parametrize("width", [1, 4, None])
def test_the_first_call_is_kept_alone(width: int | None) -> None:
    output = f"{QUOTED}\n{call('read', ('path', '/a'))}"
    reading = harness.ask(output, width, tools=TOOLS, **ONE)
    assert arguments(reading) == [("bash", REMOVE)]
