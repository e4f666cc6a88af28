# SPDX-License-Identifier: Apache-2.0
"""Questions, verdicts and metrics: what the figures of a receipt are made with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from cpu import asking, questions
from cpu.questions import Question
from cpu.server import Server

METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 100.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 20.0
"""
CASE = "examples/01-function-end-in-value/closed"
RIGHT = {"content": "a </function> b"}


def test_acceptance_is_read_from_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    request = httpx.Request("GET", "http://x/metrics")
    answer = httpx.Response(200, text=METRICS, request=request)
    monkeypatch.setattr(httpx, "get", lambda *_, **__: answer)
    running = Server("http://x", 3, Path(), Path(), None)  # type: ignore[arg-type]
    assert running.accepted() == [0.8, 0.5, 0.2]


@pytest.mark.parametrize(
    ("shares", "widths"),
    [
        ([], []),
        ([0.8, 0.5, 0.2], []),
        ([1.0, 0.9], [1]),
        ([0.8, 0.8, 0.2], [2]),
        ([0.4, 0.0, 0.0], [3, 4]),
        # The deeper a draft, the rarer its last tokens are right.
        ([0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2], []),
    ],
)
def test_drafts_that_prove_nothing_are_complained_of(
    shares: list[float], widths: list[int]
) -> None:
    found = [f"no step gave {width} tokens" for width in widths]
    assert asking.complaints(shares) == found


@pytest.fixture
def asked(tmp_path: Path) -> list[Question]:
    """All questions to a model whose answers have as many tokens as their number."""
    taught = enumerate(name for name, _, _ in questions.taught())
    answers = {name: [number] * number for number, name in taught}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    return questions.questions(tmp_path)


def test_each_case_is_asked_on_every_surface_in_its_own_words(
    asked: list[Question],
) -> None:
    ways = [q for q in asked if q.name == CASE]
    assert len({(q.surface, q.streamed) for q in ways}) == len(ways) == 6
    assert all(q.body()["temperature"] == 0 for q in ways)
    sizes = [len(question.tokens) for question in asked]
    assert sizes == sorted(sizes, reverse=True)


def test_an_answer_is_cut_where_its_case_is(asked: list[Question]) -> None:
    limits = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}
    for question in asked:
        limit = question.body()[limits.get(question.surface, "max_tokens")]
        cut = question.run.expected.finish_reason == "length"
        assert limit == len(question.tokens) if cut else limit > len(question.tokens)
    assert any(q.run.expected.finish_reason == "length" for q in asked)


def test_budgets_would_run_out_in_the_call(asked: list[Question]) -> None:
    budgets = [q.body().get("thinking_token_budget") for q in asked]
    found = {budget for budget in budgets if budget is not None}
    size = next(len(q.tokens) for q in asked if q.name == questions.INSIDE)
    assert found == set(range(size - 11, size))


def judged(
    tmp_path: Path,
    question: Question,
    arguments: dict[str, str],
    tokens: tuple[int, ...],
) -> asking.Verdict:
    """The verdict on a call of an engine that gave ``tokens``; 500 without any."""
    function = {"name": "write", "arguments": json.dumps(arguments)}
    call = {"id": "call-1", "type": "function", "function": function}
    choice = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    answer = {"id": "chatcmpl-1", "choices": [choice]}
    tap = tmp_path / "tap"
    tap.write_text(json.dumps({"id": "chatcmpl-1_0", "tokens": tokens}) + "\n")
    running = Server("", 1, tmp_path / "log", tap, None)  # type: ignore[arg-type]
    status = 200 if tokens else 500
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=answer))

    async def ask() -> list[asking.Answer]:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await asking.ask(running, http, [question])

    (verdict,) = asking.verdicts(asyncio.run(ask()))
    return verdict


@pytest.mark.parametrize(
    ("arguments", "other", "kind"),
    [
        (RIGHT, False, "right"),
        ({"content": "a "}, False, "parser"),
        ({"content": "a "}, True, "model"),
    ],
)
def test_a_wrong_answer_has_an_address(
    asked: list[Question],
    tmp_path: Path,
    arguments: dict[str, str],
    other: bool,
    kind: str,
) -> None:
    question = next(q for q in asked if q.name == CASE and not q.streamed)
    tokens = (*question.tokens, 1) if other else question.tokens
    verdict = judged(tmp_path, question, arguments, tokens)
    assert verdict["kind"] == kind and bool(verdict["why"]) == (kind != "right")
    said = asking.summary([verdict])
    assert (said["right"], said["requests"]) == (int(kind == "right"), 1)
    assert said["by_kind"] == {kind: 1}
    shown = [one["what"] for one in said["wrong"]]
    assert shown == [f"{CASE}, chat"] * (kind != "right")


def test_a_refused_request_is_wrong(asked: list[Question], tmp_path: Path) -> None:
    verdict = judged(tmp_path, asked[0], {}, ())
    assert verdict["kind"] == "request" and "500" in verdict["why"][0]
