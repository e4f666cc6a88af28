# SPDX-License-Identifier: Apache-2.0
"""How readings of other parsers are judged and counted."""

from conformance.case import parse
from conformance.reading import ReadCall, Reading
from engines.__main__ import judged
from engines.peers import read

CASE = parse(
    {
        "description": "a call that is quoted",
        "class": "must-not",
        "source": "this test",
        "tools": [{"name": "read", "parameters": {"type": "object"}}],
        "output": "Say <function=read>.",
        "expected": {"content": "Say <function=read>.", "finish_reason": "stop"},
    },
    "test/quoted",
)
RIGHT = Reading(content="Say <function=read>.", finish="stop")
CALLED = Reading(
    content="Say ", calls=[ReadCall("read", "1", "{}", {})], finish="tool_calls"
)


def test_a_call_that_was_quoted_and_a_cut_that_matters_are_counted_by_case() -> None:
    counted = judged(
        [
            (CASE, {"full": RIGHT, "w1": RIGHT, "whole": CALLED}),
            (CASE, {"full": RIGHT, "w1": RIGHT}),
        ]
    )
    assert counted == {
        "all": 5,
        "right": 4,
        "ran": 1,
        "cases": 2,
        "burst_dependent": 1,
        "quoted_executed": 1,
    }


def test_white_space_is_form_and_the_response_that_is_not_streamed_is_no_cut() -> None:
    near = Reading(content="Say <function=read>.\n", finish="stop")
    counted = judged([(CASE, {"full": near, "w1": RIGHT})])
    found = (counted["right"], counted["form"], counted["burst_dependent"])
    assert found == (2, 1, 0)


def test_deltas_of_a_peer_are_put_together_by_the_index_of_their_call() -> None:
    deltas = [
        ("a", []),
        ("", [(0, "read", '{"p":'), (1, "write", "")]),
        ("b", [(0, "", " 1}"), (1, "", "{")]),
    ]
    reading = read(deltas, "stop")
    assert reading.content == "ab"
    assert [(call.name, call.text) for call in reading.calls] == [
        ("read", '{"p": 1}'),
        ("write", "{"),
    ]
    assert reading.calls[0].parsed == {"p": 1}
    assert any(broken.startswith("valid-json") for broken in reading.broken), (
        "the second call is no JSON"
    )
