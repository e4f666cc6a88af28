# SPDX-License-Identifier: Apache-2.0
"""The usage counts the tokens before the reasoning's end, and reads nothing again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import WIDTHS, call, events, ids, raw

THOUGHT = "The tag <tool_call>\n<function= begins a call, as in <tool_call>, it says.\n"
ANSWER = "\n\nDone, as </think> ends it.\n" + call("read", ("path", "/a"))
CALL = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
STREAM = {"include_usage": True, "continuous_usage_stats": True}

CASES = {
    "ended by its tag": (THOUGHT, "</think>" + ANSWER),
    "ended by a call": (THOUGHT, CALL),
    "a call in the first step": ("", CALL),
    "opened by the model": ("<think>Hm.", "</think>" + ANSWER),
    "never ended": (THOUGHT, ""),
}


def wanted(name: str) -> int:
    """Tokens of a case's reasoning, the end token included where it never ended."""
    thought, rest = CASES[name]
    return len(ids(thought)) - thought.startswith("<think>") + (not rest)


def counts(text: str, width: int, prompt: str = "open") -> list[int]:
    """Reasoning tokens that the usage of each step of a stream tells."""
    options: dict[str, Any] = {"reasoning": "qwen3", "stream_options": STREAM}
    found = events(text, width, prompt=prompt, **options)
    return [_told(chunk["usage"]) for chunk in found if chunk["choices"]]


def _told(usage: dict[str, Any]) -> int:
    return int(
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_streamed(name: str, width: int) -> None:
    found = counts("".join(CASES[name]), width)
    assert found[-1] == wanted(name)
    assert found == sorted(found) or name != "never ended"


@pytest.mark.parametrize("name", CASES)
def test_not_streamed(name: str) -> None:
    _, answer = raw("".join(CASES[name]), reasoning="qwen3", prompt="open")
    assert _told(json.loads(answer)["usage"]) == wanted(name)


def test_no_reasoning() -> None:
    assert set(counts("Done." + CALL, 3, "closed")) == {0}


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
    found = counts(text, 1)
    assert found == sorted(found)
    assert sum(fed) <= len(ids(text))
