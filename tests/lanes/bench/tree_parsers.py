# SPDX-License-Identifier: Apache-2.0
"""Parsers of the vLLM tree on the path, opened and fed as its chat serving code does. What releases differ in is here."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from bench.workloads import TOOLS, Workload

#: Takes a step's text, its token ids, and whether the output ends; gives the step's deltas.
Feed = Callable[[str, list[int], bool], Sequence[Any]]

_REQUEST = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": TOOLS,
    "stream": True,
}


def _serving_calls_parse_deltas() -> bool:
    for name in ("stream_processor", "serving"):
        try:
            module = importlib.import_module(
                f"vllm.entrypoints.openai.chat_completion.{name}"
            )
        except ImportError:
            continue
        if hasattr(module, "parse_deltas"):
            return True
    return False


class TreeParsers:
    """Opens parsers by the names that the command line takes."""

    def __init__(self, model_folder: str) -> None:
        import vllm.platforms
        from vllm.platforms.cpu import CpuPlatform

        # A source tree has no build, hence no platform; the CPU one asks for least.
        vllm.platforms._current_platform = CpuPlatform()
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionRequest,
        )
        from vllm.parser.parser_manager import ParserManager
        from vllm.tokenizers import get_tokenizer

        self._manager = ParserManager
        # As serving has it: with the vocabulary cached.
        self._tokenizer = get_tokenizer(model_folder)
        self._request = ChatCompletionRequest(**_REQUEST)
        self._many = _serving_calls_parse_deltas()
        self._classes: dict[tuple[str, str | None], Any] = {}

    def prompt_ids(self, workload: Workload) -> list[int]:
        """Token ids of the prompt: the chat template opens the reasoning where there is any."""
        end = "<|im_start|>assistant\n" + ("<think>\n" if workload.thinks else "")
        ids: list[int] = self._tokenizer.encode(end, add_special_tokens=False)
        return ids

    def opener(self, name: str, workload: Workload) -> Callable[[], Feed]:
        """What opens the parser of one stream."""
        reasoning = "qwen3" if workload.thinks else None
        prompt = self.prompt_ids(workload)
        parser_cls = self._class(name, reasoning)
        if parser_cls is None:
            return lambda: self._two_parsers(name, reasoning, prompt)
        if self._many and hasattr(parser_cls, "parse_deltas"):
            return lambda: self._many_deltas(parser_cls, prompt)
        if (
            "finished" not in inspect.signature(parser_cls.parse_delta).parameters
        ):  # before v0.23
            return lambda: self._one_delta_unfinished(parser_cls, prompt)
        return lambda: self._one_delta(parser_cls, prompt)

    def nothing(self) -> Feed:
        """A parser that takes everything for content, and looks at nothing."""
        from vllm.parser import abstract_parser

        message = abstract_parser.DeltaMessage
        return lambda text, ids, finished: (message(content=text),)

    def _class(self, name: str, reasoning: str | None) -> Any:
        """The joint parser's class; ``None`` if serving holds two parsers itself, as releases before v0.20 do."""
        if (name, reasoning) not in self._classes:
            made = self._manager.get_parser(name, reasoning, True)
            self._classes[name, reasoning] = (
                made if hasattr(made, "parse_delta") else None
            )
        return self._classes[name, reasoning]

    def _one_delta(self, parser_cls: Any, prompt: list[int]) -> Feed:
        parse, request = (
            parser_cls(self._tokenizer, self._request.tools).parse_delta,
            self._request,
        )
        return lambda text, ids, finished: (
            parse(text, ids, request, prompt, finished=finished),
        )

    def _one_delta_unfinished(self, parser_cls: Any, prompt: list[int]) -> Feed:
        parse, request = (
            parser_cls(self._tokenizer, self._request.tools).parse_delta,
            self._request,
        )
        return lambda text, ids, finished: (parse(text, ids, request, prompt),)

    def _many_deltas(self, parser_cls: Any, prompt: list[int]) -> Feed:
        parse, request = (
            parser_cls(self._tokenizer, self._request.tools).parse_deltas,
            self._request,
        )
        return lambda text, ids, finished: parse(
            text, ids, request, prompt, finished=finished
        )

    def _two_parsers(self, name: str, reasoning: str | None, prompt: list[int]) -> Feed:
        tool_cls = self._manager.get_tool_parser(name, True)
        try:
            tools = tool_cls(self._tokenizer, self._request.tools)
        except TypeError:
            tools = tool_cls(self._tokenizer)
        if reasoning is None:
            return TwoParsers(tools, None, self._request, prompt).feed
        thinks = self._manager.get_reasoning_parser(reasoning)(self._tokenizer)
        return TwoParsers(tools, thinks, self._request, prompt).feed


class TwoParsers:
    """What serving does at each step of a stream with ``tool_choice`` "auto" in releases without a joint parser."""

    def __init__(
        self, tools: Any, reasoning: Any, request: Any, prompt: list[int]
    ) -> None:
        self._tools, self._reasoning, self._request = tools, reasoning, request
        self._text, self._ids = "", list[int]()
        self._thought = reasoning is None or reasoning.is_reasoning_end(prompt)
        self._handed_over = reasoning is None

    def feed(self, text: str, ids: list[int], finished: bool) -> Sequence[Any]:
        """One step."""
        before, before_ids = self._text, self._ids
        now = before + text
        now_ids = before_ids + ids if before_ids else ids
        delta = None
        if not self._thought:
            delta = self._reasoning.extract_reasoning_streaming(
                before, now, text, before_ids, now_ids, ids
            )
            if self._reasoning.is_reasoning_end(ids):
                self._thought = True
                now_ids = self._reasoning.extract_content_ids(ids)
                now = delta.content if delta and delta.content else ""
        if self._thought:
            if not self._handed_over:
                self._handed_over, before, before_ids, text, ids = (
                    True,
                    "",
                    [],
                    now,
                    now_ids,
                )
            delta = self._tools.extract_tool_calls_streaming(
                previous_text=before,
                current_text=now,
                delta_text=text,
                previous_token_ids=before_ids,
                current_token_ids=now_ids,
                delta_token_ids=ids,
                request=self._request,
            )
        self._text, self._ids = now, now_ids
        return (delta,)
