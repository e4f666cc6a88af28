# SPDX-License-Identifier: Apache-2.0
"""Proof of thinking-budget-tool-call: a call that begins inside the reasoning ends what
the budget counts, and tags in the answer start nothing (D8).

For reasoning parser ``qwen3`` and every pair of parsers that the reader serves; a call
ends it for requests that may call tools. For all others the budget is stock's.
"""

from collections.abc import Callable
from typing import Any

import pytest

from budget import (
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
        tools: str = "qwen3_coder",
        end: str = "</think>",
        tool_choice: str | None = "auto",
        draft: Callable[[int], list[int]] | None = None,
    ) -> list[int]:
        if drafts and not has_drafts():
            pytest.skip("this release has no budget with speculative decoding")
        config = configuration(monkeypatch, parser, end)
        params = sampling_params(budget, tool_choice, parser, tools)
        enforce = enforcer(monkeypatch, config, ids(prompt), params, drafts)
        return decode(
            enforce, script, draft or (lambda begin: script[begin : begin + drafts])
        )

    return decoded


TURN = "<|im_start|>assistant\n"
#: Longer than any budget here.
TEXT = " and a good deal more text follows, whatever a budget says" * 4
ANSWER = ids("</think>\n\nReasoning stands between <think> and </think>." + TEXT)


def written(value: str) -> list[int]:
    """A call whose value is this, and text."""
    return ids("\n" + call("write", ("path", "/a"), ("content", value + TEXT)))


SOFT_END = "Stop.</think>"
#: A script, its budget beyond the thought's tokens, and what else is not as usual; the
#: output is the script.
WHOLE: dict[str, tuple[list[int], tuple[int, ...], dict[str, Any]]] = {
    # Wherever in the call the budget ends, and wherever a step of several tokens does;
    # the prompt's newline counts.
    "in the call": (THOUGHT + CALL, (2, 3, 6, 13), {}),
    "opened by the model": (
        ids("<think>\n") + THOUGHT + CALL,
        (3, 4, 6, 12),
        {"prompt": TURN},
    ),
    "a longer end": (THOUGHT + CALL, (4,), {"end": SOFT_END}),
    "a required call": (THOUGHT + CALL, (4,), {"tool_choice": "required"}),
    "tag in a value": (THOUGHT + ids("</think>\n") + written("See <think>"), (8,), {}),
    "tag begins a value": (THOUGHT + ids("</think>\n") + written("<think>"), (8,), {}),
    "tag in a call that ends the reasoning": (THOUGHT + written("a <think>"), (8,), {}),
    "tags in a value": (
        THOUGHT + ids("</think>") + written("<think>\na</think>\n\n<think>\n"),
        (8,),
        {},
    ),
    "tag in an answer": (THOUGHT + ANSWER, (8,), {}),
    "tag in an answer, no tools": (THOUGHT + ANSWER, (8,), {"tool_choice": None}),
    "tag in an answer, a longer end": (THOUGHT + ANSWER, (8,), {"end": SOFT_END}),
    "tag in an answer behind a call": (
        THOUGHT + CALL + ids("\nThe <think> tag." + TEXT),
        (8,),
        {},
    ),
    "tag behind reasoning that the prompt closed": (
        ids("The tag <think> opens it." + TEXT),
        (0, 8),
        {"prompt": OPEN + "\n</think>\n\n"},
    ),
    "tag in an answer without reasoning": (
        ids("The tag <think> opens it." + TEXT),
        (0,),
        {"prompt": TURN},
    ),
}


@pytest.mark.parametrize("drafts", [0, 1, 2, 5])
@pytest.mark.parametrize("name", WHOLE)
def test_call_is_whole(run: Decode, name: str, drafts: int) -> None:
    script, budgets, options = WHOLE[name]
    for more in budgets:
        assert run(script, len(THOUGHT) + more, drafts, **options) == script


@pytest.mark.parametrize("drafts", [0, 3])
def test_prompt_inside_a_call(run: Decode, drafts: int) -> None:
    for budget in (0, 3):
        prompt = OPEN + "So.<tool_call>\n"
        assert run(CALL[2:], budget, drafts, prompt=prompt) == CALL[2:]


#: The same of what ends within the budget.
CUT: dict[str, tuple[list[int], int, dict[str, Any]]] = {
    "before a call": (THOUGHT * 4 + CALL, 1, {}),
    # What the prompt says before the reasoning opens ends nothing.
    "a call of an earlier turn": (
        THOUGHT * 4,
        1,
        {"prompt": TURN + call("read", ("path", "/a")) + "<|im_end|>\n" + OPEN},
    ),
    # A model that may not call thinks no longer.
    "no tools": (THOUGHT + CALL, 4, {"tool_choice": None}),
    "another pair": (
        THOUGHT + CALL,
        4,
        {"parser": "deepseek_r1", "tools": "hermes"},
    ),
    "no call to make": (THOUGHT + CALL, 4, {"tool_choice": "none"}),
    # Text stands behind the end that is forced.
    "a tag in the answer": (THOUGHT * 4 + ids("a <think> is" + TEXT), 1, {}),
}


@pytest.mark.parametrize("drafts", [0, 1, 2, 5])
@pytest.mark.parametrize("name", CUT)
def test_budget_holds(run: Decode, name: str, drafts: int) -> None:
    script, more, options = CUT[name]
    output = run(script, len(THOUGHT) + more, drafts, **options)
    assert end_of(output) == len(THOUGHT) + more - 1
    assert output.count(END) == 1


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize(
    ("parser", "tools"),
    [("nemotron_v3", "qwen3_coder"), ("qwen3", "hermes")],
)
def test_pairs(run: Decode, parser: str, tools: str, drafts: int) -> None:
    """Those that the reader serves, and the parser that ends its reasoning itself."""
    script = THOUGHT + CALL
    options = {"parser": parser, "tools": tools}
    assert run(script, len(THOUGHT) + 4, drafts, **options) == script


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


@pytest.mark.parametrize("drafts", [0, 1, 3, 5])
def test_reasoning_that_opens_again(run: Decode, drafts: int) -> None:
    """Nothing but white space stands between, so it is reasoning."""
    first, thought = ids("So.</think>\n\n"), ids(TEXT)
    output = run([*first, *ids("<think>"), *thought], 9, drafts)
    assert output[: len(first) + 1] == [*first, *ids("<think>")]
    assert end_of(output[len(first) :]) == 1 + 9
    assert output.count(END) == 2


def test_no_budget(run: Decode) -> None:
    output = run(THOUGHT + CALL, 0)
    assert output[0] == END
    assert END not in output[1:]


def test_longer_end_is_forced_whole(run: Decode) -> None:
    output = run(THOUGHT * 4 + CALL, len(THOUGHT) + 1, end=SOFT_END)
    assert output[len(THOUGHT) :][: len(ids(SOFT_END))] == ids(SOFT_END)
    assert output.count(END) == 1


@pytest.mark.parametrize("value", ["0", "00"])
def test_switched_off(run: Decode, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The variable is read as everywhere else, where 00 is 0."""
    monkeypatch.setenv("VLLM_QWEN_TOOL_READER", value)
    assert end_of(run(THOUGHT + CALL, len(THOUGHT) + 4)) == len(THOUGHT) + 3


def test_parser_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strings are given, so the parser need not be known to this process."""
    from vllm.config.reasoning import ReasoningConfig

    if hasattr(ReasoningConfig, "natural_reasoning_end_token_ids"):
        pytest.skip("this release makes the reasoning parser whatever is given")
    config = configuration(monkeypatch, "registered-elsewhere", "</think>")
    assert config.reasoning_end_token_ids == [END]
