# SPDX-License-Identifier: Apache-2.0
"""Proof of thinking-budget-tool-call: a call that begins inside the reasoning ends what
the budget counts (D8).

For reasoning parser ``qwen3`` and requests that may call tools; for all others the
budget is stock's.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budget import (
    builds_the_parser,
    configuration,
    decode,
    enforcer,
    has_drafts,
    sampling_params,
)
from harness import call, ids

OPEN = "<|im_start|>assistant\n<think>\n"
# Longer than a step: within one, the V1 runner may end the reasoning a token late.
THOUGHT = ids("I think so, since the file is there and nobody else reads it. ")
CALL = ids(call("write", ("path", "/a"), ("content", "some longer text")))
(END,) = ids("</think>")

Decode = Callable[..., list[int]]


def end_of(output: list[int]) -> int | None:
    """Where the reasoning ends, by the model's will or by force."""
    return output.index(END) if END in output else None


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Decode:
    """Decodes a script under a budget, with drafts that are right unless given."""

    def decoded(
        script: list[int],
        budget: int,
        drafts: int = 0,
        *,
        prompt: str = OPEN,
        parser: str = "qwen3",
        end: str = "</think>",
        tool_choice: str | None = "auto",
        draft: Callable[[int], list[int]] | None = None,
    ) -> list[int]:
        if drafts and not has_drafts():
            pytest.skip("this release has no budget with speculative decoding")
        config = configuration(monkeypatch, parser, end)
        params = sampling_params(budget, tool_choice)
        enforce = enforcer(monkeypatch, config, ids(prompt), params, drafts)
        return decode(
            enforce, script, draft or (lambda begin: script[begin : begin + drafts])
        )

    return decoded


@pytest.mark.parametrize("drafts", [0, 1, 2, 5])
@pytest.mark.parametrize("left", [1, 2, 5, 12])
def test_call_is_whole(run: Decode, left: int, drafts: int) -> None:
    """Wherever in the call the budget ends, and wherever a step of several tokens
    does.
    """
    script = THOUGHT + CALL
    budget = len(THOUGHT) + 1 + left  # the prompt's newline counts
    assert run(script, budget, drafts) == script


@pytest.mark.parametrize("drafts", [0, 1, 2, 5])
@pytest.mark.parametrize("left", [3, 4, 6, 12])
def test_reasoning_opened_by_the_model(run: Decode, left: int, drafts: int) -> None:
    script = ids("<think>\n") + THOUGHT + CALL
    assert (
        run(script, len(THOUGHT) + left, drafts, prompt="<|im_start|>assistant\n")
        == script
    )


@pytest.mark.parametrize("drafts", [0, 2, 5])
def test_budget_holds_before_a_call(run: Decode, drafts: int) -> None:
    output = run(THOUGHT * 4 + CALL, len(THOUGHT) + 1, drafts)
    assert end_of(output) == len(THOUGHT)
    assert output.count(END) == 1


@pytest.mark.parametrize("drafts", [0, 2, 5])
def test_budget_ends_where_the_call_would_begin(run: Decode, drafts: int) -> None:
    output = run(THOUGHT + CALL * 2, len(THOUGHT) + 1, drafts)
    assert output == [*THOUGHT, END, *(CALL * 2)[1:]]


@pytest.mark.parametrize("drafts", [2, 5])
def test_rejected_draft_of_a_call(run: Decode, drafts: int) -> None:
    """A drafted call that the model does not make ends nothing."""
    script = THOUGHT * 8
    output = run(script, 2 * len(THOUGHT), drafts, draft=lambda begin: CALL[:drafts])
    assert output.count(END) == 1
    assert end_of(output) == 2 * len(THOUGHT) - 1


@pytest.mark.parametrize("drafts", [0, 3])
def test_prompt_inside_a_call(run: Decode, drafts: int) -> None:
    prompt = OPEN + "So.<tool_call>\n"
    assert run(CALL[2:], 3, drafts, prompt=prompt) == CALL[2:]
    assert run(CALL[2:], 0, drafts, prompt=prompt) == CALL[2:]


@pytest.mark.parametrize("drafts", [0, 3])
def test_call_of_an_earlier_turn(run: Decode, drafts: int) -> None:
    """What the prompt says before the reasoning opens ends nothing."""
    prompt = (
        "<|im_start|>assistant\n" + call("read", ("path", "/a")) + "<|im_end|>\n" + OPEN
    )
    output = run(THOUGHT * 4, len(THOUGHT) + 1, drafts, prompt=prompt)
    assert end_of(output) == len(THOUGHT)


def test_no_budget(run: Decode) -> None:
    output = run(THOUGHT + CALL, 0)
    assert output[0] == END
    # Before drafts were known the end of such a budget was forced twice.
    assert END not in output[1 if has_drafts() else 3 :]


@pytest.mark.parametrize("drafts", [0, 3])
def test_longer_end(run: Decode, drafts: int) -> None:
    """An end of several tokens: forced whole before a call, and not into one."""
    end = "Stop.</think>"
    script = THOUGHT + CALL
    assert run(script, len(THOUGHT) + 4, drafts, end=end) == script
    output = run(THOUGHT * 4 + CALL, len(THOUGHT) + 1, end=end)
    assert output[len(THOUGHT) :][: len(ids(end))] == ids(end)
    assert output.count(END) == 1


@pytest.mark.parametrize("tool_choice", [None, "none"])
@pytest.mark.parametrize("drafts", [0, 1, 2, 5])
def test_no_call_to_make(run: Decode, drafts: int, tool_choice: str | None) -> None:
    """A model without tools that writes of calls thinks no longer than its budget."""
    output = run(THOUGHT + CALL, len(THOUGHT) + 4, drafts, tool_choice=tool_choice)
    assert end_of(output) == len(THOUGHT) + 3


def test_required_call(run: Decode) -> None:
    assert (
        run(THOUGHT + CALL, len(THOUGHT) + 4, tool_choice="required") == THOUGHT + CALL
    )


@pytest.mark.parametrize("parser", ["deepseek_r1", "glm45", "step3p5"])
def test_other_parsers(run: Decode, parser: str) -> None:
    output = run(THOUGHT + CALL, len(THOUGHT) + 4, parser=parser)
    assert end_of(output) == len(THOUGHT) + 3


@pytest.mark.parametrize("value", ["0", "00"])
def test_switched_off(run: Decode, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The variable is read as everywhere else, where 00 is 0."""
    monkeypatch.setenv("VLLM_QWEN_TOOL_READER", value)
    assert end_of(run(THOUGHT + CALL, len(THOUGHT) + 4)) == len(THOUGHT) + 3


def test_parser_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strings are given, so the parser need not be known to this process."""
    if builds_the_parser():
        pytest.skip("this release makes the reasoning parser whatever is given")
    config = configuration(monkeypatch, "registered-elsewhere", "</think>")
    assert config.reasoning_end_token_ids == [END]
