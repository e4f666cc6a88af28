# SPDX-License-Identifier: Apache-2.0
"""Proof of call-whitespace: the grammar of a required call ends white space."""

import functools
import json
from inspect import signature
from typing import Any

import pytest

from conformance.host.engine import use_cpu_platform
from harness import tool, wrapped_tokenizer

NONE = tool("now", {"type": "object", "properties": {}})
SOME = tool(
    "write",
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {}}},
        "required": ["a"],
    },
)
OPEN = "<tool_call>\n<function=write>\n"
FIRST = OPEN + "<parameter=a>\nx\n</parameter>"
#: What stands before the white space.
BEFORE = {
    "without arguments": "<tool_call>\n<function=now>\n",
    "before a parameter": OPEN,
    "behind a parameter": FIRST,
}


@functools.cache
def grammar(choice: str) -> Any:
    """What the release makes of a request's tools, compiled."""
    use_cpu_platform()
    import xgrammar
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    request = ChatCompletionRequest(
        messages=[{"role": "user", "content": "x"}],
        tools=[NONE, SOME],
        tool_choice=choice,
    )
    tokenizer = wrapped_tokenizer()
    parser = ToolParserManager.get_tool_parser("qwen3_coder")(tokenizer, request.tools)
    takes_reasoning = "reasoning" in signature(parser.get_structural_tag).parameters
    options = {"reasoning": False} if takes_reasoning else {}
    tag = parser.get_structural_tag(request, **options)
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer))
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    return compiler.compile_structural_tag(json.dumps(tag.model_dump()))


def takes(text: str, choice: str = "required") -> bool:
    import xgrammar

    matcher = xgrammar.GrammarMatcher(
        grammar(choice), terminate_without_stop_token=True
    )
    return bool(matcher.accept_string(text))


@pytest.mark.parametrize("space", [" ", "\t", "\n"])
@pytest.mark.parametrize("name", BEFORE)
def test_white_space_ends(name: str, space: str) -> None:
    assert takes(BEFORE[name] + 250 * space)
    assert not takes(BEFORE[name] + 300 * space)


@pytest.mark.parametrize("indent", [None, 4, "\t"])
def test_an_indented_value_is_taken(indent: int | str | None) -> None:
    value = json.dumps([[[[["x"]]]]], indent=indent)
    end = "\n</parameter>\n</function>\n</tool_call>"
    assert takes(f"{FIRST}\n<parameter=b>\n{value}{end}")


def test_white_space_in_a_string_has_no_bound() -> None:
    assert takes(OPEN + "<parameter=a>\n" + 3000 * " " + "x\n</parameter>")
