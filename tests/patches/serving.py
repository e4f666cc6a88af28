# SPDX-License-Identifier: Apache-2.0
"""Runs a scripted output through a tree's own serving code, without an engine.

The serving objects are made without their constructor, which wants a model; what the generators read is set here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from harness import TOOLS, _parser, _prompt, _request, steps, tokenizer


def _outputs(
    text: str, width: int, prompt: list[int], finish_reason: str, cumulative: bool
) -> Iterator[Any]:
    """Engine outputs of each step, or of all of them at once."""
    from vllm.outputs import CompletionOutput, RequestOutput

    cut = list(steps(text, 100_000 if cumulative else width))
    for number, (piece, ids) in enumerate(cut, start=1):
        last = number == len(cut)
        output = CompletionOutput(
            index=0,
            text=piece,
            token_ids=ids,
            cumulative_logprob=None,
            logprobs=None,
            finish_reason=finish_reason if last else None,
        )
        yield RequestOutput(
            request_id="request",
            prompt=None,
            prompt_token_ids=prompt,
            prompt_logprobs=None,
            outputs=[output],
            finished=last,
        )


async def _stream(items: Iterator[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


class _Model:
    """What the generators ask of the model's configuration."""

    hf_config = type("Config", (), {"model_type": "qwen3"})()
    hf_text_config = hf_config


def _serving_chat(parser_cls: type, enable_auto_tools: bool = True) -> Any:
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat

    serving = OpenAIServingChat.__new__(OpenAIServingChat)
    settings = {
        "parser_cls": parser_cls,
        "model_config": _Model(),
        "enable_auto_tools": enable_auto_tools,
        "response_role": "assistant",
        "use_harmony": False,
        "default_chat_template_kwargs": {},
        "chat_template_content_format": "auto",
        "chat_template": None,
        "request_logger": None,
        "system_fingerprint": None,
        "tool_call_id_type": "random",
    }
    off = (
        "enable_force_include_usage",
        "enable_log_outputs",
        "enable_log_deltas",
        "enable_prompt_tokens_details",
        "_include_reasoning_tokens_details",
        "enable_per_request_metrics",
        "exclude_tools_when_tool_choice_none",
    )
    settings |= dict.fromkeys(off, False)
    for name, value in settings.items():
        setattr(serving, name, value)
    return serving


def _arguments(
    serving: Any, request: Any, parser: Any, outputs: Iterator[Any], generator: Any
) -> dict[str, Any]:
    """What a generator takes; its parameters differ between the releases."""
    import inspect

    from vllm.entrypoints.openai.chat_completion.serving import RequestResponseMetadata

    given = {
        "request": request,
        "result_generator": _stream(outputs),
        "request_id": "request",
        "model_name": "qwen",
        "conversation": [],
        "tokenizer": tokenizer(),
        "request_metadata": RequestResponseMetadata(request_id="request"),
        "parser": parser,
        "chat_template_kwargs": {},
    }
    names = inspect.signature(generator).parameters
    return {name: value for name, value in given.items() if name in names}


def chat_chunks(
    text: str,
    width: int,
    *,
    reasoning: bool = False,
    finish_reason: str = "stop",
    **fields: Any,
) -> list[dict[str, Any]]:
    """The choices that ``/v1/chat/completions`` streams."""
    request = _request(fields.pop("tools", TOOLS), True, **fields)
    parser = _parser(request, reasoning)
    serving = _serving_chat(type(parser))
    outputs = _outputs(text, width, _prompt(reasoning, None), finish_reason, False)
    generator = serving.chat_completion_stream_generator

    async def run() -> list[str]:
        return [
            line
            async for line in generator(
                **_arguments(serving, request, parser, outputs, generator)
            )
        ]

    lines = [line.removeprefix("data: ").strip() for line in asyncio.run(run())]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert all("choices" in chunk for chunk in chunks), chunks
    return [choice for chunk in chunks for choice in chunk["choices"]]


def chat_answer(
    text: str,
    *,
    reasoning: bool = False,
    prompt: str | None = None,
    finish_reason: str = "stop",
    **fields: Any,
) -> dict[str, Any]:
    """The choice that ``/v1/chat/completions`` answers without streaming."""
    request = _request(fields.pop("tools", TOOLS), False, **fields)
    parser = _parser(request, reasoning)
    serving = _serving_chat(type(parser))
    outputs = _outputs(text, 0, _prompt(reasoning, prompt), finish_reason, True)
    generator = serving.chat_completion_full_generator
    response = asyncio.run(
        generator(**_arguments(serving, request, parser, outputs, generator))
    )
    choice: dict[str, Any] = response.model_dump()["choices"][0]
    return choice


def response_events(text: str, width: int, *, reasoning: bool = False) -> list[Any]:
    """The events of output items that ``/v1/responses`` streams."""
    return asyncio.run(_Responses(text, width, reasoning, stream=True).events())


def response_usage(text: str, width: int | None) -> dict[str, Any]:
    """The usage that ``/v1/responses`` tells, streamed in steps of ``width`` tokens or not streamed; the prompt opens reasoning."""
    return asyncio.run(
        _Responses(text, width or 0, True, stream=width is not None).usage()
    )


class _Responses:
    """One request to ``/v1/responses``."""

    def __init__(self, text: str, width: int, reasoning: bool, *, stream: bool) -> None:
        from vllm.entrypoints.openai.responses.context import SimpleContext
        from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
        from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses

        tools = [
            {"type": "function", **tool["function"], "strict": None} for tool in TOOLS
        ]
        self._request = ResponsesRequest(
            model="qwen", input="hello", tools=tools, stream=stream, store=False
        )
        parser = _parser(self._request, reasoning)
        self._serving = OpenAIServingResponses.__new__(OpenAIServingResponses)
        settings = {
            "parser": type(parser),
            "enable_auto_tools": True,
            "use_harmony": False,
            "enable_log_outputs": False,
            "request_logger": None,
            "tool_server": None,
            "tool_call_id_type": "random",
        }
        for name, value in settings.items():
            setattr(self._serving, name, value)
        self._context = SimpleContext(response_parser=parser)
        prompt = _prompt(reasoning, None)
        if not stream and hasattr(parser, "set_prompt_token_ids"):
            parser.set_prompt_token_ids(prompt)
        self._outputs = _outputs(text, width, prompt, "stop", not stream)
        self._common = {
            "request": self._request,
            "context": self._context,
            "model_name": "qwen",
            "tokenizer": tokenizer(),
        }

    def _contexts(self) -> Iterator[Any]:
        for output in self._outputs:
            self._context.append_output(output)
            yield self._context

    async def events(self) -> list[Any]:
        """What is streamed."""
        events = self._serving._process_simple_streaming_events(
            **self._common,
            sampling_params=None,
            result_generator=_stream(self._contexts()),
            request_metadata=None,
            created_time=0,
            _increment_sequence_number_and_return=lambda event: event,
        )
        return [event async for event in events]

    async def usage(self) -> dict[str, Any]:
        """What the response's usage says; a stream's is made when its events are over."""
        from vllm.entrypoints.openai.chat_completion.serving import (
            RequestResponseMetadata,
        )
        from vllm.sampling_params import SamplingParams

        if self._request.stream:
            await self.events()
        response = await self._serving.responses_full_generator(
            **self._common,
            sampling_params=SamplingParams(max_tokens=16),
            result_generator=_stream(self._contexts()),
            request_metadata=RequestResponseMetadata(request_id="request"),
            created_time=0,
        )
        usage: dict[str, Any] = response.usage.model_dump()
        return usage
