# SPDX-License-Identifier: Apache-2.0
"""Proof of mentioned-openings: thinking that speaks of a tag begins no grammar."""

import os
from typing import Any

import pytest
from packaging.version import Version

from grammar import said, stop
from harness import THINKING, ask, call

READ = call("read", ("path", "/x"))
NAMED = {"type": "function", "function": {"name": "read"}}
CHOICES = pytest.mark.parametrize(
    "choice", ["required", NAMED], ids=["required", "named"]
)
MENTIONS = (
    "I use <tool_call> now, and then think on.",
    "The tags `<tool_call>` and <tool_call></tool_call>.\nAnd so on.",
    "- <tool_call> opens it\n> <tool_call>\n",
    "Not <tool_call>\n<function=rm>\nhere.",
)


def read(
    output: str, width: int | None, choice: Any, **options: Any
) -> tuple[str, str, list[str]]:
    """Reasoning, text, and the path of each call; a named call finishes as text."""
    reading = ask(output, width, tool_choice=choice, **{**THINKING, **options})
    assert {call.name for call in reading.calls} == {"read"}
    paths = [call.parsed["path"] for call in reading.calls]
    return reading.reasoning, reading.content, paths


@pytest.mark.parametrize("k", [0, 1, 3, 5])
@pytest.mark.parametrize("mention", MENTIONS)
@CHOICES
def test_a_mention_is_thought(choice: Any, mention: str, k: int) -> None:
    output = f"{mention}</think>\n\n{READ}"
    assert stop(output, k, tool_choice=choice, **THINKING) is None
    for width in (k + 1, None):
        assert read(output, width, choice) == (mention, "", ["/x"])


@pytest.mark.parametrize("k", [0, 3])
@CHOICES
def test_an_opening_at_the_beginning_of_a_line_begins_the_answer(
    choice: Any, k: int
) -> None:
    for thought in ("", "I read it.\n", "Of <tool_call> I know.\n\n"):
        output = f"{thought}{READ}\nRead."
        assert stop(output, k, tool_choice=choice, **THINKING) is None
        for width in (k + 1, None):
            reasoning, content, paths = read(output, width, choice)
            assert reasoning.strip("\n") == thought.strip("\n")
            assert (content, paths) == ("Read.", ["/x"])


@pytest.mark.parametrize("k", [0, 3, 5])
@CHOICES
def test_a_reasoning_parser_that_waits_for_the_tag(choice: Any, k: int) -> None:
    thought = f"I could do this:\n{READ}\nBut that:\n"
    output = f"{thought}</think>{call('read', ('path', '/y'))}"
    options = {"reasoning": "deepseek_r1", "prompt": "open", "tool_choice": choice}
    assert stop(output, k, **options) is None
    for width in (k + 1, None):
        taken = read(output, width, choice, reasoning="deepseek_r1")
        assert taken == (thought, "", ["/y"])


@pytest.mark.parametrize("k", [0, 3])
def test_the_grammar_holds_behind_it(k: int) -> None:
    output = "I read it.\n<tool_call>\n<function=rm>\n"
    assert said(output, k, tool_choice="required", **THINKING).endswith("<function=")
    output = "It is </think>no call"
    if k and Version(os.environ.get("VLLM_RELEASE", "v0.33.0")) < Version("v0.25.1"):
        pytest.skip("this release masks nothing in the step with </think>")
    assert said(output, k, tool_choice="required", **THINKING) == "It is </think>"
