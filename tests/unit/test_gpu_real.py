# SPDX-License-Identifier: Apache-2.0
"""How answers of real weights are judged, and the prompts."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance.reading import ReadCall, Reading, failed
from cpu.asking import Answer
from gpu import real

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


def test_a_prompt_is_asked_alone_on_each_surface() -> None:
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
