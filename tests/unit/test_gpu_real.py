# SPDX-License-Identifier: Apache-2.0
"""How answers of real weights are judged, and the prompts."""

import json
from collections import Counter

import jsonschema
import pytest

from cpu import metrics, transcripts
from cpu.asking import Asked
from cpu.surfaces import Got
from cpu.transcripts import Message
from gpu import real

DRAFTS = metrics.Drafts(10, 30, 20, (9, 7, 4))


def asked(
    got: Got | None,
    id: str = "read-three",
    *,
    streamed: bool = False,
    surface: str = "chat",
) -> Asked:
    transcript = real.prompts()[id]
    nothing = Message("", "", (), "stop")
    return Asked(
        "real weights",
        surface,
        streamed,
        transcript,
        4096,
        nothing,
        got,
        "" if got else "refused",
    )


def call(text: str, name: str = "read", finish: str = "tool_calls") -> Got:
    return Got(id="x", names=[name], arguments=[text], finish=finish)


def test_there_are_enough_prompts_of_each_sort() -> None:
    found = real.prompts().values()
    assert len(found) >= 40
    groups = Counter(prompt.group for prompt in found)
    assert all(groups[name] >= 8 for name in ("parallel", "long", "markup"))
    assert real.prompts()[real.LONG].group == "long"
    for prompt in found:
        for schema in transcripts.tool_schemas(prompt.tools).values():
            jsonschema.Draft202012Validator.check_schema(schema)


def test_the_same_tokens_must_be_the_same_message() -> None:
    pair = [asked(call('{"path": "a"}')), asked(call('{"path": "b"}'), streamed=True)]
    said = real.report(pair, [[1, 2], [1, 2]], {}, 0, DRAFTS)
    assert said["acceptance_by_position"] == list(DRAFTS.acceptance_by_position)
    assert (said["right"], said["requests"]) == (1, 2)
    assert said["wrong"][0]["why"] == ("another message was made of the same tokens",)
    apart = real.report(pair, [[1, 2], [1, 3]], {}, 0, DRAFTS)
    assert apart["right"] == 2  # other tokens, another message


@pytest.mark.parametrize(
    ("got", "why"),
    [
        (call('{"path": 3}'), "3 is not of type 'string'"),
        (call("{}"), "'path' is a required property"),
        (call('{"path": "a'), "arguments are no JSON"),
        (call("{}", name="delete"), "no tool is called 'delete'"),
    ],
)
def test_a_call_that_its_schema_does_not_allow_is_wrong(got: Got, why: str) -> None:
    said = real.report([asked(got)], [[1]], {}, 0, DRAFTS)
    assert said["by_kind"] == {"parser": 1}
    assert why in said["wrong"][0]["why"][0]


def test_the_last_call_of_a_cut_answer_is_let_be() -> None:
    assert (
        real.report([asked(call('{"pa', finish="length"))], [[1]], {}, 0, DRAFTS)[
            "right"
        ]
        == 1
    )


def test_the_first_token_that_differs_from_k0_is_told_and_no_fault() -> None:
    said = real.report(
        [asked(call('{"path": "a"}'))],
        [[5, 6, 8]],
        {"read-three": [5, 6, 7, 9]},
        3,
        DRAFTS,
    )
    assert said["right"] == 1
    assert said["prompts_differing_from_k0"] == {
        "read-three": {
            "first_differing_token": 2,
            "at_k0": [7],
            "here": [8],
            "lengths": [4, 3],
        }
    }
    json.dumps(said)


def test_a_refused_request_is_wrong_and_a_silent_prompt_is_named() -> None:
    said = real.report(
        [asked(None), asked(Got(content="hi", finish="stop"))],
        [None, [1]],
        {},
        0,
        DRAFTS,
    )
    assert said["by_kind"] == {"request": 1, "right": 1}
    assert said["prompts_without_a_call"] == ["read-three"]
