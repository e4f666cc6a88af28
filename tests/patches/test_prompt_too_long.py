# SPDX-License-Identifier: Apache-2.0
"""Proof of prompt-too-long: Anthropic's words on /v1/messages."""

import re
from typing import Any

import pytest

from window import CONTEXT, ask, error, source, words

WORDS = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")
COUNT = "/v1/messages/count_tokens"


def said(path: str, length: int, **fields: Any) -> tuple[int, int]:
    """The tokens and the limit that the error names."""
    found = error(path, words(length), **fields)
    assert found["type"] == "invalid_request_error"
    match = WORDS.fullmatch(found["message"])
    assert match, found["message"]
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("more", [1, 4000])
def test_the_tokens_are_true(stream: bool, more: int) -> None:
    tokens, limit = said("/v1/messages", CONTEXT + more, stream=stream)
    assert limit == CONTEXT
    # The template's own are few.
    assert more <= tokens - limit <= more + 30


def test_a_text_that_is_not_tokenized() -> None:
    tokens, limit = said("/v1/messages", 300 * CONTEXT)
    assert tokens > 100 * limit


def test_counting() -> None:
    if COUNT not in source("entrypoints/anthropic/api_router.py"):
        pytest.skip("this release does not count tokens")
    assert said(COUNT, 3000)[0] >= 3000


def test_other_errors_are_as_before() -> None:
    status, answer = ask("/v1/messages", "hi", temperature=-1)
    assert status >= 400
    assert b"too long" not in answer
