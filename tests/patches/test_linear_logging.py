# SPDX-License-Identifier: Apache-2.0
"""Proof of linear-logging: no step of a chat stream copies the text before it, and
what is logged is the whole text.
"""

from unittest.mock import Mock

import pytest

from harness import SURFACES, application, body_of, post, script

PROSE = "some words of an answer " * 40


class CountedText(str):
    """Text that counts when it is added to other text, which copies that."""

    copies = 0

    def __radd__(self, other: str) -> str:
        CountedText.copies += bool(other)
        return other + str(self)


def stream() -> None:
    steps = script(PROSE, 4)
    steps.bursts = tuple((CountedText(text), ids) for text, ids in steps.bursts)
    app = application("none", "qwen3_coder")
    path, body = SURFACES["chat"].PATH, body_of("chat", "none", True, [])
    status, answer = post(app, path, body, steps)
    assert status == 200
    assert b"words" in answer
    assert len(steps.bursts) > 20


def test_no_copies() -> None:
    CountedText.copies = 0
    stream()
    assert CountedText.copies == 0


def test_the_log_has_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = Mock()
    serving = application("none", "qwen3_coder").state.openai_serving_chat
    monkeypatch.setattr(serving, "enable_log_outputs", True)
    monkeypatch.setattr(serving, "request_logger", logger)
    stream()
    assert [
        call.kwargs["outputs"]
        for call in logger.log_outputs.call_args_list
        if call.kwargs.get("finish_reason") == "streaming_complete"
    ] == [PROSE]
