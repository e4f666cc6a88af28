# SPDX-License-Identifier: Apache-2.0
"""The usage counts the tokens before the reasoning's end, and reads nothing again."""

import json
from typing import Any
from unittest.mock import create_autospec

import pytest

from harness import WIDTHS, call, events, ids, raw, response

THOUGHT = "The tag <tool_call>\n<function= begins a call, as in <tool_call>, it says.\n"
ANSWER = "\n\nDone, as </think> ends it.\n" + call("read", ("path", "/a"))
CALL = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))
DETAILS = "completion_tokens_details"
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


def counts(text: str, width: int | None, prompt: str = "open") -> list[int]:
    """Reasoning tokens that the usage of an answer, or of each step of it, tells."""
    asked: dict[str, Any] = {"reasoning": "qwen3", "prompt": prompt}
    if width is None:
        told = [json.loads(raw(text, **asked)[1])["usage"]]
    else:
        found = events(text, width, stream_options=STREAM, **asked)
        told = [chunk["usage"] for chunk in found if chunk["choices"]]
    if not any(DETAILS in usage for usage in told):  # before v0.28.0
        usage = response(text, width, **asked)["usage"]
        return [usage["output_tokens_details"]["reasoning_tokens"]]
    return [(usage.get(DETAILS) or {}).get("reasoning_tokens", 0) for usage in told]


@pytest.mark.parametrize("width", [None, *WIDTHS])
@pytest.mark.parametrize("name", CASES)
def test_all_of_it_is_counted(name: str, width: int | None) -> None:
    found = counts("".join(CASES[name]), width)
    assert found[-1] == wanted(name)
    assert found == sorted(found) or name != "never ended"


def test_no_reasoning() -> None:
    assert set(counts("Done." + CALL, 3, "closed")) == {0}


def test_counting_at_every_step_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vllm.parser.engine.streaming_parser_engine import StreamingParserEngine

    feed = create_autospec(
        StreamingParserEngine.feed, side_effect=StreamingParserEngine.feed
    )
    monkeypatch.setattr(StreamingParserEngine, "feed", feed)
    text = "So it is. " * 50 + "</think>" + ANSWER
    found = counts(text, 1)
    assert found == sorted(found)
    assert sum(len(call.args[2]) for call in feed.call_args_list) <= len(ids(text))
