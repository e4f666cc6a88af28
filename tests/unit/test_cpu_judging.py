# SPDX-License-Identifier: Apache-2.0
"""Metrics, differences, results: what the lane's figures are made with."""

import click
import pytest

from cpu import metrics, results
from cpu.__main__ import mtp_range
from cpu.surfaces.common import Got
from cpu.transcripts import Call, Message
from cpu.verdict import Verdict, differences, only_space

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 100.0
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 300.0
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 150.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 20.0
"""


def test_drafts_are_read_from_the_metrics() -> None:
    drafts = metrics.drafts(METRICS, 3)
    assert drafts == metrics.Drafts(100, 300, 150, (80, 50, 20))
    assert drafts.acceptance == 0.5 and drafts.acceptance_by_position == [0.8, 0.5, 0.2]
    assert drafts.widths() == {1: 20, 2: 30, 3: 30, 4: 20}
    assert drafts.complaints() == []
    assert metrics.running(METRICS) == 3


@pytest.mark.parametrize(
    ("by_position", "complaint"),
    [
        ((100, 100, 99), "acceptance is 100%"),
        ((20, 5, 1), "acceptance is 9%"),
        ((80, 80, 20), "no burst of 2 tokens"),
    ],
)
def test_bursts_that_prove_nothing_are_complained_of(
    by_position: tuple[int, ...], complaint: str
) -> None:
    drafts = metrics.Drafts(100, 300, sum(by_position), by_position)
    assert any(text.startswith(complaint) for text in drafts.complaints())


def test_a_deep_draft_is_judged_by_its_first_five_tokens() -> None:
    deep = tuple(
        round(1000 * 0.8**n) for n in range(1, 16)
    )  # right four times in five: 26 % of all 15
    drafts = metrics.Drafts(1000, 15_000, sum(deep), deep)
    assert drafts.acceptance < metrics.LEAST_ACCEPTANCE
    assert drafts.complaints() == []
    rare = (
        *deep[:13],
        deep[14],
        deep[14],
    )  # 14 tokens at a time never came up, which says nothing
    assert metrics.Drafts(1000, 15_000, sum(rare), rare).complaints() == []
    never = (*deep[:14], 0)
    assert metrics.Drafts(1000, 15_000, sum(never), never).complaints() == [
        "no burst of 16 tokens"
    ]
    poor = tuple(round(1000 * 0.4**n) + 16 - n for n in range(1, 16))
    assert metrics.Drafts(1000, 15_000, sum(poor), poor).complaints() == [
        "acceptance is 14%, not 40% to 90%"
    ]


WANTED = Message(
    "hm\n", "Done.", (Call("write", {"path": "/a", "n": 1}),), "tool_calls"
)


def got(**changed: object) -> Got:
    right = {
        "reasoning": "hm\n",
        "content": "Done.",
        "names": ["write"],
        "arguments": ['{"path":"/a","n":1}'],
    }
    return Got(**{**right, "finish": "tool_calls", **changed})  # type: ignore[arg-type]


def test_the_right_message_has_no_differences() -> None:
    assert differences(WANTED, got()) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"reasoning": "hm"}, "reasoning"),
        ({"content": "Done.\n"}, "content"),
        ({"names": ["read"]}, "call 0: name"),
        ({"names": [], "arguments": []}, "0 calls, not 1"),
        ({"arguments": ['{"path":"/a","n":1.0}']}, "call 0: arguments"),
        ({"arguments": ['{"path":"/a","n":true}']}, "call 0: arguments"),
        ({"arguments": ['{"path":"/a"']}, "call 0: arguments are no JSON object"),
        ({"finish": "stop"}, "finish 'stop', not 'tool_calls'"),
        ({"broken": ["two finish reasons"]}, "two finish reasons"),
    ],
)
def test_a_difference_is_seen_and_named(changed: dict[str, object], why: str) -> None:
    assert differences(WANTED, got(**changed)) == [why]


def test_space_alone_is_told_apart() -> None:
    assert only_space(WANTED, got(content="\nDone. ", reasoning="hm"))
    assert not only_space(WANTED, got(content="Done", reasoning="hm"))
    assert not only_space(WANTED, got(content="Done. ", finish="stop"))


def verdict(
    kind: str, surface: str = "chat", transcript: str = "a", check: str = "everywhere"
) -> Verdict:
    return Verdict(kind, check, surface, False, transcript, None, bursts=(1, 3, 3))  # type: ignore[arg-type]


def test_a_result_counts_by_surface_group_and_check() -> None:
    verdicts = [
        verdict("right"),
        verdict("parser"),
        verdict("right", "messages", "b"),
        verdict("model", check="cut"),
    ]
    summary = results.summary(verdicts, {"a": "plain", "b": "markup"})
    assert (summary["requests"], summary["right"]) == (4, 2)
    assert summary["by_surface"] == {
        "chat": {"requests": 2, "right": 1},
        "messages": {"requests": 1, "right": 1},
    }
    assert summary["by_group"]["plain"] == {"requests": 2, "right": 1}
    assert summary["by_check"]["cut"] == {"requests": 1, "right": 0}
    assert [wrong["kind"] for wrong in summary["wrong"]] == ["parser", "model"]
    assert results.delivered_widths(verdicts) == {1: 4, 3: 8}


def test_the_table_says_what_was_not_run() -> None:
    summary = results.summary([verdict("right")], {"a": "plain"})
    result = {
        **summary,
        "variant": "stock",
        "mtp": 2,
        "acceptance": 0.5,
        "burst_widths": {1: 3, 2: 1, 3: 4},
    }
    head, _, row = results.table([result]).splitlines()
    assert head.startswith("| wheel | k | chat | chat streamed |")
    assert row.startswith("| stock | 2 | 1/1 | not run |")
    assert row.endswith("| 50% | 1:3 2:1 3:4 |")


def test_mtp_range() -> None:
    assert mtp_range("0-5") == [0, 1, 2, 3, 4, 5]
    assert mtp_range("5,0,3") == [0, 3, 5]
    assert mtp_range("7,15") == [7, 15]
    for wrong in ("", "16", "a", "3-1", "-1"):
        with pytest.raises(click.BadParameter):
            mtp_range(wrong)
