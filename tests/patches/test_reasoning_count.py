# SPDX-License-Identifier: Apache-2.0
"""The usage counts the tokens before the reasoning's end, and reads nothing again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from harness import WIDTHS, call, counted, reasoning_counts, steps

THOUGHT = "The tag <tool_call>\n<function= begins a call, as in <tool_call>, it says.\n"
ANSWER = "\n\nDone, as </think> ends it.\n" + call("read", ("path", "/a"))
CALL = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


def tokens(text: str) -> int:
    """Tokens of a text."""
    return sum(len(ids) for _, ids in steps(text, 1))


CASES = {
    "ended by its tag": (THOUGHT, "</think>" + ANSWER),
    "ended by a call": (THOUGHT, CALL),
    "a call in the first step": ("", CALL),
    "opened by the model": ("<think>Hm.", "</think>" + ANSWER),
    "never ended": (THOUGHT, ""),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_streamed(name: str, width: int) -> None:
    thought, rest = CASES[name]
    counts = reasoning_counts(thought + rest, width)
    assert counts[-1] == tokens(thought) - thought.startswith("<think>")
    if not rest:
        assert counts == sorted(counts)


@pytest.mark.parametrize("name", CASES)
def test_not_streamed(name: str) -> None:
    thought, rest = CASES[name]
    assert counted(thought + rest) == tokens(thought) - thought.startswith("<think>")


@pytest.mark.parametrize("prompt", ["<|im_start|>assistant\n<think>\n\n</think>\n\n"])
def test_no_reasoning(prompt: str) -> None:
    assert set(reasoning_counts("Done." + CALL, 3, prompt=prompt)) == {0}


def test_counting_at_every_step_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vllm.parser.engine import streaming_parser_engine

    fed: list[int] = []
    engine: Any = streaming_parser_engine.StreamingParserEngine
    feed = engine.feed

    def counting(self: Any, text: str, ids: Any) -> Any:
        fed.append(len(ids))
        return feed(self, text, ids)

    monkeypatch.setattr(engine, "feed", counting)
    text = "So it is. " * 50 + "</think>" + ANSWER
    counts = reasoning_counts(text, 1)
    assert all(one <= two for one, two in itertools.pairwise(counts))
    assert sum(fed) <= tokens(text)
