# SPDX-License-Identifier: Apache-2.0
"""How answers of real weights are judged, the prompts, and the pace of a stream."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from conformance.reading import ReadCall, Reading, failed
from cpu.asking import Answer
from gpu import pace, real

ASKED = real.questions()


def answer(
    text: str, tokens: tuple[int, ...] = (1,), finish: str = "tool_calls"
) -> Answer:
    """An answer to a prompt with one call."""
    reading = Reading(calls=[ReadCall("read", "1", text)], finish=finish)
    reading.close()
    return Answer(ASKED[0], reading, "chatcmpl-1", tokens)


def why(*answers: Answer) -> list[list[str]]:
    return [one["why"] for one in real.verdicts(answers)]


def test_there_are_enough_prompts_of_each_sort() -> None:
    names = {question.name for question in ASKED}
    assert len(names) == 50 and len(ASKED) == 6 * 50
    groups = Counter(name.partition("/")[0] for name in names)
    assert all(groups[name] >= 8 for name in ("parallel", "long", "markup"))
    assert ASKED[0].name == "long/snake", "the first one is timed"
    for question in ASKED[:6]:
        body = question.body()
        place = "input" if question.surface == "responses" else "messages"
        (message,) = body[place]
        assert message["content"].startswith("Write snake.py") and body["tools"]


def test_the_same_tokens_must_be_the_same_message() -> None:
    first, same, other = '{"path": "a"}', '{"path": "b"}', '{"path": "c"}'
    wrong = ["another message was made of the same tokens"]
    found = why(answer(first, (1, 2)), answer(same, (1, 2)), answer(other, (1, 3)))
    assert found == [[], wrong, []]


@pytest.mark.parametrize(("finish", "wrong"), [("tool_calls", True), ("length", False)])
def test_only_a_cut_answer_ends_with_an_open_call(finish: str, wrong: bool) -> None:
    (found,) = why(answer('{"path": "a', finish=finish))
    assert any("valid-json" in each for each in found) == wrong


def test_a_refused_request_is_wrong() -> None:
    (verdict,) = real.verdicts([Answer(ASKED[0], failed(500, b"no"))])
    assert verdict["kind"] == "request" and "500" in verdict["why"][0]


GAP = 0.05


async def chunks() -> AsyncIterator[bytes]:
    """An answer of 12 tokens in six chunks."""
    for number in range(6):
        yield b'data: {"choices":[{"index":0}]}\n\n'
        await asyncio.sleep(GAP if number < 5 else 0)
    yield b'data: {"choices":[],"usage":{"completion_tokens":12}}\n\ndata: [DONE]\n\n'


def test_the_pace_is_that_of_the_chunks() -> None:
    async def measured() -> dict[str, Any]:
        server = httpx.MockTransport(lambda _: httpx.Response(200, content=chunks()))
        async with httpx.AsyncClient(transport=server, base_url="http://x") as client:
            return await pace.measure(client, {"model": "m"}, streams=4, rounds=2)

    found = asyncio.run(measured())
    assert 0.8 * GAP * 1000 < found["p50_ms"] <= found["p99_ms"]
    # An answer takes five gaps, or longer on a busy machine.
    assert 0 < found["tokens_per_second"] <= 4 * 12 / (5 * GAP) * 1.1
