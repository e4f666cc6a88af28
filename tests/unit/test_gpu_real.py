# SPDX-License-Identifier: Apache-2.0
"""How answers of real weights are judged, and the prompts."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
import pytest

from conformance.reading import ReadCall, Reading, failed
from cpu import transcripts
from cpu.asking import Answer, Question
from gpu import real


def answer(text: str, name: str = "read", finish: str = "tool_calls") -> Answer:
    """An answer to a prompt with one call."""
    reading = Reading(calls=[ReadCall(name, "1", text)], finish=finish)
    reading.close()
    prompt = real.prompts()["read-three"]
    return Answer(Question("x", "chat", False, prompt), reading, "chatcmpl-1")


def why(*answers: Answer, tokens: list[list[int]]) -> list[list[str]]:
    return [list(one.why) for one in real.verdicts(answers, tokens)]


def test_there_are_enough_prompts_of_each_sort() -> None:
    found = real.prompts()
    assert len(found) == 50
    groups = Counter(prompt.group for prompt in found.values())
    assert all(groups[name] >= 8 for name in ("parallel", "long", "markup"))
    assert found[real.LONG].group == "long"
    for prompt in found.values():
        for schema in transcripts.tool_schemas(prompt.tools).values():
            jsonschema.Draft202012Validator.check_schema(schema)


def test_the_same_tokens_must_be_the_same_message() -> None:
    pair = answer('{"path": "a"}'), answer('{"path": "b"}')
    same = ["another message was made of the same tokens"]
    assert why(*pair, tokens=[[1, 2], [1, 2]]) == [[], same]
    assert why(*pair, tokens=[[1, 2], [1, 3]]) == [[], []]


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (answer('{"path": 3}'), "3 is not of type 'string'"),
        (answer("{}"), "'path' is a required property"),
        (answer('{"path": "a'), "valid-json"),
        (answer("{}", name="delete"), "no tool is called 'delete'"),
    ],
)
def test_a_call_that_its_schema_does_not_allow_is_wrong(got: Answer, said: str) -> None:
    ((first, *_),) = why(got, tokens=[[1]])
    assert said in first


def test_the_last_call_of_a_cut_answer_is_let_be() -> None:
    assert why(answer('{"pa', finish="length"), tokens=[[1]]) == [[]]


def test_a_refused_request_is_wrong() -> None:
    refused = Answer(answer("{}").question, failed(500, b"no"))
    (verdict,) = real.verdicts([refused], [[]])
    assert verdict.kind == "request" and "500" in verdict.why[0]
    json.dumps(verdict.why)
