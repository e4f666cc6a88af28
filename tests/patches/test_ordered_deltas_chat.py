# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas-chat: one kind a delta, in the output's order, at every
width (D2, D10).
"""

import itertools

import pytest

from application import application
from harness import (
    THINKING,
    TOOLS,
    WIDTHS,
    answer,
    call,
    chat_choices,
)

PREFACE = "Two calls:\n\n"
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
AFTER = "\nDone."
READ = [("read", {"path": "/a"}), ("read", {"path": "/b"})]
KINDS = ("reasoning", "content", "tool_calls")


@pytest.mark.parametrize("width", WIDTHS)
def test_chat(width: int) -> None:
    text = "Hm.</think>" + PREFACE + CALLS + AFTER
    # Among others: one kind a delta, each in the order of the output.
    assert answer(text, width, **THINKING) == ("Hm.", "Two calls:\n\nDone.", READ)
    choices = chat_choices(text, width, **THINKING)
    kinds = [kind for one in choices for kind in KINDS if one["delta"].get(kind)]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [*KINDS, "content"]
    assert all({"finish_reason", "logprobs"} <= choice.keys() for choice in choices[1:])


@pytest.mark.parametrize("width", [1, 1000])
def test_usage_of_every_chunk(width: int) -> None:
    """A chunk counts as the step's last one does, whichever of the step's deltas it
    carries.
    """
    text = "Hm.</think>" + PREFACE + CALLS + AFTER
    body = {
        "messages": [{"role": "user", "content": "go"}],
        "tools": TOOLS,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    steps = [text[at : at + width] for at in range(0, len(text), width)]
    found = application().events("/v1/chat/completions", body, *steps)
    usages = [chunk["usage"] for chunk in found]
    counted = [usage["completion_tokens"] for usage in usages]
    assert counted == sorted(counted)
    assert len({"completion_tokens_details" in usage for usage in usages}) == 1
    if width == 1000:  # the role, five deltas of the step, the end of it, the total
        assert len([count for count in counted if count]) >= 6
