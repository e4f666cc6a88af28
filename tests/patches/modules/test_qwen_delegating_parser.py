# SPDX-License-Identifier: Apache-2.0
"""One object reads reasoning and calls, told the prompt and the end."""

from __future__ import annotations

from typing import Any

import pytest

from harness import TOOLS, call, steps, tokenizer

OUTPUT = (
    "Hm.</think>Both.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("write", ("content", "x\n"))
)


def _parser() -> Any:
    from vllm.parser.qwen_delegating_parser import QwenDelegatingParser
    from vllm.reasoning import ReasoningParserManager

    reasoning = ReasoningParserManager.get_reasoning_parser("qwen3")
    return type("Parser", (QwenDelegatingParser,), {"reasoning_parser_cls": reasoning})(
        tokenizer(), None
    )


def _request() -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS
    )


def _ids(text: str) -> list[int]:
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False)
    return ids


@pytest.mark.parametrize("width", [1, 2, 3, 7, 100_000])
def test_steps(width: int) -> None:
    parser, request, cut = _parser(), _request(), list(steps(OUTPUT, width))
    reasoning = content = ""
    calls: dict[int, list[str]] = {}
    for number, (text, ids) in enumerate(cut, start=1):
        for delta in parser.parse_deltas(
            text, ids, request, _ids("<think>\n"), finished=number == len(cut)
        ):
            reasoning += delta.reasoning or ""
            content += delta.content or ""
            for one in delta.tool_calls:
                entry = calls.setdefault(one.index, [one.function.name, ""])
                entry[1] += one.function.arguments
    assert (reasoning, content) == ("Hm.", "Both.")
    assert calls == {0: ["read", '{"path": "/a"}'], 1: ["write", '{"content": "x\\n"}']}


def test_whole_output() -> None:
    parser = _parser()
    parser.set_prompt_token_ids(_ids("<think>\n"))
    reasoning, content, calls = parser.parse(OUTPUT, _request())
    assert (reasoning, content) == ("Hm.", "Both.")
    assert [(one.name, one.arguments) for one in calls] == [
        ("read", '{"path": "/a"}'),
        ("write", '{"content": "x\\n"}'),
    ]


def test_output_opens_its_reasoning() -> None:
    reasoning, content, _ = _parser().parse("<think>Hm.</think>Yes.", _request())
    assert (reasoning, content) == ("Hm.", "Yes.")


@pytest.mark.parametrize("prompt", ["<think>\n\n</think>\n\n", "</think>"])
def test_prompt_closed_the_reasoning(prompt: str) -> None:
    parser = _parser()
    parser.set_prompt_token_ids(_ids(prompt))
    assert parser.parse("Yes.", _request())[:2] == (None, "Yes.")
