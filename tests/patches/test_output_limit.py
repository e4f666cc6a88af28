# SPDX-License-Identifier: Apache-2.0
"""Proof of output-limit: a bound of output tokens that the context does not hold is
cut to what the prompt leaves.
"""

import os
from typing import Any

import pytest
from packaging.version import Version

from window import BOUNDS, CONTEXT, ask, asked, words

#: Output tokens that a request asks for, with a prompt of 1000 words.
TOO_MANY = {
    "fills the context": CONTEXT,
    "just above": CONTEXT + 1,
    "far above": 131_072,
    "with the prompt": 1500,
}


def served(path: str, bound: int, **fields: Any) -> tuple[int, int]:
    """Prompt and output tokens that the engine was asked for."""
    fields[BOUNDS[path]] = bound
    status, answer = ask(path, words(1000), **fields)
    assert status == 200, answer
    return asked()


@pytest.mark.parametrize("path", BOUNDS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", TOO_MANY)
def test_what_the_prompt_leaves(path: str, stream: bool, name: str) -> None:
    prompt, output = served(path, TOO_MANY[name], stream=stream)
    assert prompt >= 1000
    assert prompt + output == CONTEXT


@pytest.mark.parametrize("bound", [CONTEXT + 1, 1500])
def test_older_name(bound: int) -> None:
    status, answer = ask("/v1/chat/completions", words(1000), max_tokens=bound)
    assert status == 200, answer


@pytest.mark.parametrize("path", BOUNDS)
def test_a_bound_that_fits_is_kept(path: str) -> None:
    assert served(path, 10)[1] == 10


@pytest.mark.parametrize("bound", [500, CONTEXT - 1, CONTEXT + 1])
def test_truncation_leaves_room(bound: int) -> None:
    """Also with a bound that the context does not hold, which was refused."""
    _, answer = ask(
        "/v1/responses", words(3000), truncation="auto", max_output_tokens=bound
    )
    assert b"error" not in answer or b'"error":null' in answer, answer
    prompt, output = asked()
    assert 0 < output <= bound
    assert 0 < prompt <= CONTEXT - output


@pytest.mark.parametrize("bound", [None, 16])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_prompt_that_leaves_no_room(path: str, bound: int | None) -> None:
    if Version(os.environ.get("VLLM_RELEASE", "v0.33.0")) < Version("v0.33.0"):
        pytest.skip("this release takes the prompt for one that fits")
    more = served(path, 10)[0] - 1000
    fields = {} if bound is None else {BOUNDS[path]: bound}
    status, answer = ask(path, words(CONTEXT - more), **fields)
    assert status == 400
    assert f"maximum context length is {CONTEXT} ".encode() in answer
    assert ask(path, words(CONTEXT - more - 1), **fields)[0] == 200


def test_a_bound_below_one_is_refused_as_before() -> None:
    assert ask("/v1/chat/completions", "hi", max_tokens=0)[0] == 400
