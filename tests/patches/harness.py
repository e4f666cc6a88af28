# SPDX-License-Identifier: Apache-2.0
"""Runs an output through the parser that a server would make for it.

What differs between releases is asked of the code here, and in no test.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lanes"))

#: Tokens a step delivers: one, few, many, all.
WIDTHS = (1, 2, 3, 5, 9, 100_000)


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A function tool, as a chat request names it."""
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def strings(*names: str) -> dict[str, Any]:
    """Schema of an object of strings."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
    }


#: The tools of most tests.
TOOLS = [tool("write", strings("path", "content")), tool("read", strings("path"))]


def call(name: str, *parameters: tuple[str, str]) -> str:
    """A call as the chat template renders it."""
    values = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters
    )
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


@dataclass
class Message:
    """What a client has at the end."""

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def arguments(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls, their arguments parsed."""
        return [(name, _parsed(text)) for name, text in self.calls]


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(arguments)
    except ValueError as error:
        raise AssertionError(
            f"the arguments of a call are no JSON: {arguments!r}"
        ) from error
    return parsed


@functools.cache
def tokenizer() -> Any:
    """Qwen's, as a release holds it."""
    from transformers import AutoTokenizer

    from conformance import tokens

    return AutoTokenizer.from_pretrained(str(tokens.model_folder()))


def steps(text: str, width: int) -> Iterator[tuple[str, list[int]]]:
    """Cut a text into steps of ``width`` tokens; a cut character comes with its end."""
    ids = tokenizer().encode(text, add_special_tokens=False)
    waiting: list[int] = []
    for start in range(0, len(ids), width):
        burst = ids[start : start + width]
        waiting += burst
        piece = tokenizer().decode(waiting, skip_special_tokens=False)
        if piece.endswith("\ufffd"):
            piece = ""
        else:
            waiting = []
        yield piece, burst


def _request(tools: list[dict[str, Any]], stream: bool, **fields: Any) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(
        model="qwen",
        messages=[{"role": "user", "content": "hello"}],
        tools=tools or None,
        stream=stream,
        **fields,
    )


def _parser(request: Any, reasoning: bool) -> Any:
    from vllm.parser.parser_manager import ParserManager

    parser_cls = ParserManager.get_parser(
        "qwen3_coder", "qwen3" if reasoning else None, True
    )
    assert parser_cls is not None
    return parser_cls(tokenizer(), request.tools)


def _prompt(reasoning: bool, prompt: str | None) -> list[int]:
    if prompt is None:
        prompt = "<|im_start|>assistant\n" + ("<think>\n" if reasoning else "")
    ids: list[int] = tokenizer().encode(prompt, add_special_tokens=False)
    return ids


def deltas(
    text: str,
    width: int,
    *,
    tools: list[dict[str, Any]] = TOOLS,
    reasoning: bool = False,
    prompt: str | None = None,
    **fields: Any,
) -> Iterator[list[Any]]:
    """The deltas of each step of a stream."""
    request = _request(tools, True, **fields)
    parser = _parser(request, reasoning)
    prompt_ids = _prompt(reasoning, prompt)
    cut = list(steps(text, width))
    for number, (piece, ids) in enumerate(cut, start=1):
        arguments = (piece, ids, request, prompt_ids)
        finished = number == len(cut)
        if hasattr(parser, "parse_deltas"):
            yield parser.parse_deltas(*arguments, finished=finished)
        else:
            delta = parser.parse_delta(*arguments, finished=finished)
            yield [] if delta is None else [delta]


def streamed(text: str, width: int, **options: Any) -> Message:
    """The message that a stream of steps of ``width`` tokens adds up to."""
    message = Message()
    for step in deltas(text, width, **options):
        for delta in step:
            message.reasoning += delta.reasoning or ""
            message.content += delta.content or ""
            for part in delta.tool_calls or ():
                if part.index == len(message.calls):
                    message.calls.append((part.function.name, ""))
                name, arguments = message.calls[part.index]
                message.calls[part.index] = (
                    name,
                    arguments + (part.function.arguments or ""),
                )
    return message


def whole(
    text: str,
    *,
    tools: list[dict[str, Any]] = TOOLS,
    reasoning: bool = False,
    prompt: str | None = None,
    **fields: Any,
) -> Message:
    """The message of an answer that is not streamed."""
    request = _request(tools, False, **fields)
    parser = _parser(request, reasoning)
    if hasattr(parser, "set_prompt_token_ids"):
        parser.set_prompt_token_ids(_prompt(reasoning, prompt))
    thought, content, calls = parser.parse(text, request, enable_auto_tools=True)
    return Message(
        thought or "", content or "", [(one.name, one.arguments) for one in calls or ()]
    )


def messages(text: str, **options: Any) -> Iterator[Message]:
    """The message of every width, and of the answer that is not streamed."""
    for width in WIDTHS:
        yield streamed(text, width, **options)
    yield whole(text, **options)


def _count(parser: Any, token_ids: list[int]) -> int:
    """Reasoning tokens, asked for as the serving code of the release asks."""
    counter = (
        parser if hasattr(parser, "count_reasoning_tokens") else parser.reasoning_parser
    )
    count: int = counter.count_reasoning_tokens(tuple(token_ids))
    return count


def reasoning_counts(text: str, width: int, *, prompt: str | None = None) -> list[int]:
    """Reasoning tokens that the usage of each step of a stream tells."""
    request = _request(TOOLS, True)
    parser = _parser(request, True)
    prompt_ids = _prompt(True, prompt)
    cut, said, counts = list(steps(text, width)), list[int](), list[int]()
    for number, (piece, ids) in enumerate(cut, start=1):
        parser.parse_delta(piece, ids, request, prompt_ids, finished=number == len(cut))
        said += ids
        counts.append(_count(parser, said))
    return counts


def counted(text: str) -> int:
    """Reasoning tokens that the usage of an answer tells that is not streamed."""
    request = _request(TOOLS, False)
    parser = _parser(request, True)
    if hasattr(parser, "set_prompt_token_ids"):
        parser.set_prompt_token_ids(_prompt(True, None))
    ids = [one for _, some in steps(text, 1) for one in some]
    parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
    return _count(parser, ids)
