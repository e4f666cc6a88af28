# SPDX-License-Identifier: Apache-2.0
"""Metrics and verdicts: what the figures of a receipt are made with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from cpu import asking, metrics, transcripts
from cpu.asking import Lane, Learnt, Question, summary
from cpu.server import Server
from gpu.receipt import mtp_range

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 100.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 20.0
"""


def test_drafts_are_read_from_the_metrics() -> None:
    drafts = metrics.drafts(METRICS, 3)
    assert drafts == metrics.Drafts(100, (80, 50, 20))
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
    found = metrics.Drafts(100, by_position).complaints()
    assert any(text.startswith(complaint) for text in found)


def test_a_deep_draft_is_judged_by_its_first_five_tokens() -> None:
    # Right four times in five: 26 % of all 15.
    deep = tuple(round(1000 * 0.8**n) for n in range(1, 16))
    drafts = metrics.Drafts(1000, deep)
    assert drafts.acceptance < metrics.LEAST_ACCEPTANCE
    assert drafts.complaints() == []
    # 14 tokens at a time never came up, which says nothing.
    assert metrics.Drafts(1000, (*deep[:13], deep[14], deep[14])).complaints() == []
    never = metrics.Drafts(1000, (*deep[:14], 0))
    assert never.complaints() == ["no burst of 16 tokens"]


KNOWN = transcripts.load()
ID = "one-call-preface"
RIGHT = KNOWN[ID].expected.calls[0].arguments


def completion(arguments: str, finish: str = "tool_calls") -> dict[str, Any]:
    function = {"name": "write", "arguments": arguments}
    call = {"id": "call-1", "type": "function", "function": function}
    message = {"content": KNOWN[ID].expected.content, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "choices": [choice]}


def judged(
    tmp_path: Path, answer: dict[str, Any], tokens: list[int], status: int = 200
) -> Any:
    """The verdict on an answer of an engine that gave ``tokens``; [5, 6] are learnt."""
    tap = tmp_path / "tap"
    line = {"id": "chatcmpl-1", "prompt": "p", "tokens": tokens, "bursts": [2]}
    tap.write_text(json.dumps(line) + "\n")
    running = Server("", 1, tmp_path / "log", tap, None, 8)  # type: ignore[arg-type]
    learnt = Learnt({ID: "p"}, {ID: [5, 6]}, {ID: []})
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=answer))

    async def ask() -> Any:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://x"
        ) as client:
            lane = Lane(running, client, KNOWN, learnt)
            return await lane.judge([Question("everywhere", "chat", False, KNOWN[ID])])

    (verdict,) = asyncio.run(ask())
    return verdict


def test_an_answer_as_learnt_is_right(tmp_path: Path) -> None:
    verdict = judged(tmp_path, completion(json.dumps(RIGHT)), [5, 6])
    assert (verdict.kind, verdict.why) == ("right", ())


@pytest.mark.parametrize(
    ("tokens", "kind"), [([5, 6], "parser"), ([5, 7], "model")], ids=["parser", "model"]
)
def test_a_wrong_answer_has_an_address(
    tmp_path: Path, tokens: list[int], kind: str
) -> None:
    wrong = json.dumps(RIGHT | {"content": "bread"})
    verdict = judged(tmp_path, completion(wrong), tokens)
    assert verdict.kind == kind and "arguments of call 0" in verdict.why[0]
    said = summary([verdict])
    assert (said["right"], said["by_kind"]) == (0, {kind: 1})
    assert said["by_check"] == {"everywhere": {"right": 0, "requests": 1}}
    assert said["wrong"][0]["what"] == f"everywhere: {ID} on chat"


def test_a_refused_request_is_wrong(tmp_path: Path) -> None:
    verdict = judged(tmp_path, {"error": "no"}, [5, 6], status=500)
    assert verdict.kind == "request" and "500" in verdict.why[0]


def test_a_question_has_the_words_of_its_surface() -> None:
    forced = next(t for t in KNOWN.values() if t.tool_choice in t.tools)
    bodies = {
        name: asking.body(Question("x", name, True, forced, max_tokens=7), [])
        for name in asking.SURFACES
    }
    name = forced.tool_choice
    assert bodies["chat"]["tool_choice"]["function"] == {"name": name}
    assert bodies["responses"]["tool_choice"] == {"type": "function", "name": name}
    assert bodies["messages"]["tool_choice"] == {"type": "tool", "name": name}
    assert bodies["chat"]["max_completion_tokens"] == 7
    assert bodies["responses"]["max_output_tokens"] == 7
    assert bodies["messages"]["max_tokens"] == 7


def test_mtp_range() -> None:
    assert mtp_range("0-5") == [0, 1, 2, 3, 4, 5]
    assert mtp_range("5,0,3") == [0, 3, 5]
    assert mtp_range("7,15") == [7, 15]
    for wrong in ("", "16", "a", "3-1", "-1", "6"):
        with pytest.raises(click.BadParameter):
            mtp_range(wrong)
