# SPDX-License-Identifier: Apache-2.0
"""Proof of text-chunks-responses: a stream of /v1/responses makes few models of its
text, and its bytes are theirs.
"""

from typing import Any

import pytest

from chunks import differences, models_made

EVENTS = "vllm.entrypoints.openai.responses.streaming_events"


@pytest.mark.parametrize(
    "model",
    [
        "ResponseTextDeltaEvent",
        "ResponseReasoningTextDeltaEvent",
        "ResponseFunctionCallArgumentsDeltaEvent",
    ],
)
def test_few_models(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    # One for each item.
    assert 1 <= models_made(monkeypatch, EVENTS, model, "responses") <= 3


def test_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.entrypoints.text_chunks import TextEvents

    def event(self: Any, item_id: str, make_event: Any, text: str) -> Any:
        return make_event(text)

    assert differences(monkeypatch, TextEvents, event, "responses") == []
