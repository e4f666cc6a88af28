# SPDX-License-Identifier: Apache-2.0
"""A counter's child is looked up once, not at every delta, and counts the same."""

from collections import Counter as Counts
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.parser import metrics

CHAT = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "hello"}])
RESPONSES = ResponsesRequest(model="m", input="hello")


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """The counter, whose look-ups are counted."""
    metrics.init_parser_metrics(model_name="proof")
    counted = Mock(wraps=metrics._tool_call_parser_invocations)
    monkeypatch.setattr(metrics, "_tool_call_parser_invocations", counted)
    yield counted
    metrics.init_parser_metrics(model_name="proof")


def record(request: object, called: bool | Exception, streaming: bool) -> None:
    metrics.record_tool_parser_invocation(
        is_tool_called=called, is_streaming=streaming, request=request
    )


def counts(counter: Any, model: str = "proof") -> Counts[tuple[str, ...]]:
    """Values by request type, mode and outcome, of a model."""
    found: Counts[tuple[str, ...]] = Counts()
    for sample in next(iter(counter.collect())).samples:
        labels = sample.labels
        if sample.name.endswith("_total") and labels["model_name"] == model:
            kind = (labels["request_type"], labels["mode"], labels["outcome"])
            found[kind] += int(sample.value)
    return found


def test_one_look_up_for_many_deltas(counter: Mock) -> None:
    for _ in range(100):
        record(CHAT, False, True)
    assert counter.labels.call_count <= 1


def test_each_kind_is_counted_apart(counter: Mock) -> None:
    before = counts(counter)
    for _ in range(2):
        record(CHAT, False, True)
        record(CHAT, True, True)
        record(RESPONSES, True, False)
        record(object(), ValueError("of a parser"), False)
    assert counts(counter) - before == {
        ("chat_completions", "streaming", "no_tool_call"): 2,
        ("chat_completions", "streaming", "tool_call"): 2,
        ("responses", "non_streaming", "tool_call"): 2,
        ("other", "non_streaming", "no_tool_call"): 2,
    }


def test_another_model_is_counted_under_its_name(counter: Mock) -> None:
    record(CHAT, True, True)
    metrics.init_parser_metrics(model_name="another")
    record(CHAT, True, True)
    assert counts(metrics._tool_call_parser_invocations, "another").total() >= 1
