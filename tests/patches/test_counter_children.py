# SPDX-License-Identifier: Apache-2.0
"""A counter's child is looked up once, not at every delta, and counts the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import Counter
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.parser import metrics

CHAT = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "hello"}])
RESPONSES = ResponsesRequest(model="m", input="hello")


class Counted:
    """The counter, its look-ups counted."""

    def __init__(self, counter: Counter) -> None:
        self.counter, self.lookups = counter, 0

    def labels(self, **labels: Any) -> Any:
        self.lookups += 1
        return self.counter.labels(**labels)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    metrics.init_parser_metrics(model_name="proof")
    counted = Counted(metrics._tool_call_parser_invocations)
    monkeypatch.setattr(metrics, "_tool_call_parser_invocations", counted)
    yield counted
    metrics.init_parser_metrics(model_name="proof")


def record(request: object, called: bool | Exception, streaming: bool) -> None:
    metrics.record_tool_parser_invocation(
        is_tool_called=called, is_streaming=streaming, request=request
    )


def counts(counter: Counter) -> dict[tuple[str, ...], float]:
    """Values by request type, mode and outcome, of the model ``proof``."""
    return {
        (
            sample.labels["request_type"],
            sample.labels["mode"],
            sample.labels["outcome"],
        ): sample.value
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
        and sample.labels["model_name"] == "proof"
        and sample.value
    }


def test_one_look_up_for_many_deltas(counter: Counted) -> None:
    for _ in range(100):
        record(CHAT, False, True)
    assert counter.lookups <= 1


def test_each_kind_is_counted_apart(counter: Counted) -> None:
    before = counts(counter.counter)
    for _ in range(2):
        record(CHAT, False, True)
        record(CHAT, True, True)
        record(RESPONSES, True, False)
        record(object(), ValueError("of a parser"), False)
    after = counts(counter.counter)
    assert {
        kind: value - before.get(kind, 0)
        for kind, value in after.items()
        if value != before.get(kind)
    } == {
        ("chat_completions", "streaming", "no_tool_call"): 2,
        ("chat_completions", "streaming", "tool_call"): 2,
        ("responses", "non_streaming", "tool_call"): 2,
        ("other", "non_streaming", "no_tool_call"): 2,
    }


def test_another_model_is_counted_under_its_name(counter: Counted) -> None:
    record(CHAT, True, True)
    metrics.init_parser_metrics(model_name="another")
    record(CHAT, True, True)
    made = metrics._tool_call_parser_invocations
    assert made is not None
    samples = [s for metric in made.collect() for s in metric.samples]
    assert any(
        s.labels.get("model_name") == "another" and s.value >= 1 for s in samples
    )
