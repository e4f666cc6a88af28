# SPDX-License-Identifier: Apache-2.0
"""What ends an output, and what a request or its prompt says of it, for the reader."""

import json
import os
from typing import Any

import pytest
from packaging.version import Version

from harness import THINKING, ask, call, ids, parser_of

WIDTHS = (None, 1, 100_000)
READ = call("read", ("path", "/a"))
OPEN = READ.partition("\n</parameter>")[0]
CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
#: Calls that count only if the model ends its turn behind them.
HELD = {
    "fence": "```\n" + READ + "\n",
    "undeclared": call("search", ("query", "x")),
}


def qwen_parser(prompt: str, **fields: Any) -> tuple[Any, Any]:
    """The parser of qwen3_coder and qwen3 behind a prompt, and its request."""
    parser, request = parser_of("qwen3_coder", "qwen3", **fields)
    parser.set_prompt_token_ids(ids(prompt))
    parser.set_finish_reason("stop")
    return parser, request


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("surface", ["chat", "responses"])
def test_the_end_token_is_not_text(surface: str, width: int | None) -> None:
    options: dict[str, Any] = {"surface": surface, "include_stop_str_in_output": True}
    assert ask("Fine.", width, **options).content == "Fine."
    for output in (READ, *HELD.values()):
        assert [one.name for one in ask(output, width, **options).calls] != []


SPELLED = "It is <|im_\u200bend|>."


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("output", "options", "content"),
    [
        # With other tokens than the end's own, as a model that writes about it does.
        (SPELLED, {"include_stop_str_in_output": False}, SPELLED),
        (SPELLED, {"include_stop_str_in_output": True}, SPELLED),
        # Null; serving would drop the call, and the client would see nothing.
        (READ, {"tool_choice": None}, READ),
        ("Hm.</think>Yes.", {"include_reasoning": False, **THINKING}, "Yes."),
    ],
)
def test_what_is_text_alone(
    output: str, options: dict[str, Any], content: str, width: int | None
) -> None:
    reading = ask(output, width, **options)
    assert (reading.reasoning, reading.content, reading.calls) == ("", content, [])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("stop", ["\n</tool_call>", "<|endoftext|>", "<|im_end|>\n"])
def test_a_stop_string_that_ends_the_turn_cuts_nothing(
    stop: str, width: int | None
) -> None:
    output = READ.removesuffix("\n</tool_call>")
    reading = ask(output, width, stop=stop)
    assert [one.parsed for one in reading.calls] == [{"path": "/a"}]
    assert (reading.content, reading.finish) == ("", "tool_calls")


@pytest.mark.parametrize(
    ("output", "stop", "kept", "arguments"),
    [
        # The request wants the stop string, which is the call's own end.
        (READ, "\n</tool_call>", True, '{"path": "/a"}'),
        # White space around a tag does not make a call whole.
        (OPEN, "\n</function>", False, '{"path": "/a'),
    ],
)
def test_a_closing_tag_as_stop_string(
    output: str, stop: str, kept: bool, arguments: str
) -> None:
    parser, request = qwen_parser(CLOSED, include_stop_str_in_output=kept)
    parser.set_finish_reason("stop", stop)
    calls = parser.parse(output, request)[2]
    assert [one.arguments for one in calls] == [arguments]
    assert parser.last_call_is_cut == (arguments[-1] != "}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("reasoning", "switch", "output", "content"),
    [
        ("nemotron_v3", True, "All of it.\n</think>\n\n", "All of it."),
        ("nemotron_v3", "yes", "All of it.", ""),
        ("qwen3", True, "All of it.", ""),
    ],
)
def test_whose_reasoning_may_be_the_answer(
    reasoning: str, switch: Any, output: str, content: str, width: int | None
) -> None:
    from vllm.reasoning import _REASONING_PARSERS_TO_REGISTER

    if reasoning not in _REASONING_PARSERS_TO_REGISTER:
        pytest.skip("not in this release")
    template = {"force_nonempty_content": switch}
    reading = ask(
        output,
        width,
        reasoning=reasoning,
        prompt="open",
        chat_template_kwargs=template,
    )
    assert reading.content.strip() == content


@pytest.mark.parametrize(
    ("prompt", "kinds"),
    [
        ("<|im_start|>assistant\n<think>\n", ("Hm.", None)),
        (CLOSED, (None, "Hm.")),
        # A call ended the reasoning.
        ("<|im_start|>assistant\n<think>\nSo.\n<tool_call>\n", (None, "Hm.")),
    ],
)
def test_what_the_prompt_begins(
    prompt: str, kinds: tuple[str | None, str | None]
) -> None:
    parser, request = qwen_parser(prompt)
    reasoning, content, _ = parser.parse("Hm.", request)
    assert (reasoning or None, content or None) == kinds


def test_the_last_turn_says_nothing_whatever_an_earlier_one_did() -> None:
    parser, request = qwen_parser(
        "<think>\nSo.</think>Yes.<|im_end|>\n<|im_start|>assistant\n"
    )
    # Then the parser's default counts; in v0.16.0 the output's beginning does.
    output_tells = getattr(parser, "_output_opens_reasoning", bool)()
    reasoning, content, _ = parser.parse("Hm.", request)
    kinds = (None, "Hm.") if output_tells else ("Hm.", None)
    assert (reasoning or None, content or None) == kinds


def test_the_reasoning_of_each_output_is_counted() -> None:
    pytest.importorskip("vllm.parser.qwen_tool_parser", reason="no parser engine")
    parser, request = qwen_parser("<think>\n")
    for thought in ("Hm.", "So it is, after all."):
        output = thought + "</think>Yes."
        parser.parse(output, request)
        assert parser.count_reasoning_tokens(ids(output)) == len(ids(thought))


def test_required_calls_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """With VLLM_ENFORCE_STRICT_TOOL_CALLING=0 the release's own parser reads them."""
    pytest.importorskip("vllm.parser.qwen_tool_parser", reason="no parser engine")
    from vllm.tool_parsers import ToolParserManager

    monkeypatch.setenv("VLLM_ENFORCE_STRICT_TOOL_CALLING", "0")
    kind = ToolParserManager.get_tool_parser("qwen3_coder")
    monkeypatch.setattr(kind, "supports_required_and_named", True)
    parser, request = qwen_parser("<think>\n", tool_choice="required")
    output = 'Hm.</think>[{"name": "read", "parameters": {"path": "/a"}}]'
    reasoning, _, calls = parser.parse(output, request, enable_auto_tools=True)
    assert reasoning == "Hm."
    assert [(one.name, json.loads(one.arguments)) for one in calls] == [
        ("read", {"path": "/a"})
    ]
    # Before v0.28.0 the release counts only what its reasoning parser was streamed.
    old = Version(os.environ.get("VLLM_RELEASE", "v0.33.0")) < Version("v0.28.0")
    counted = 0 if old else len(ids("Hm."))
    assert parser.count_reasoning_tokens(ids(output)) == counted
