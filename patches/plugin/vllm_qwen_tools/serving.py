# SPDX-License-Identifier: Apache-2.0
"""The reader's parser in a stock vLLM, whose serving takes one delta a step.

Serving tells a parser neither why an output ended nor, where nothing is streamed,
the prompt.  Both are in the engine's output, which is noted where serving takes it.
"""

import copy
import dataclasses
import itertools
from contextvars import ContextVar

from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.responses import streaming_events
from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses
from vllm.parser import ParserManager

from vllm_qwen_tools.qwen_tool_deltas import is_cut, merge_deltas
from vllm_qwen_tools.qwen_tool_outcomes import register
from vllm_qwen_tools.qwen_tool_pairs import TOOL_PARSERS, reads_pair
from vllm_qwen_tools.qwen_tool_parser import QwenToolParser, _LazyEngine

NOT_COVERED = "late system messages, bad history, line separators, thinking budgets"

_output = ContextVar("output", default=None)  # the engine's, as it was given
_left = ContextVar("left", default=0)  # kinds of deltas that wait for a step
_cut = ContextVar("cut", default=None)  # the finish reason if the last call is cut


class PluginParser(QwenToolParser):
    """Asks the engine's output for what patched serving tells."""

    _waiting = ()

    def _note_ending(self, text):
        """Note why the output that ends with *text* ended; what is unknown is cut."""
        endings = [
            (one.finish_reason, one.stop_reason)
            for one in getattr(_output.get(), "outputs", ())
            if one.finish_reason and text.endswith(one.text)
        ] or [("length", None)]
        self.set_finish_reason(*max(endings, key=lambda ending: is_cut(*ending)))

    def parse(self, model_output, *args, **kwargs):
        """Read a whole output."""
        self._note_ending(model_output)
        if prompt := getattr(_output.get(), "prompt_token_ids", None):
            self.set_prompt_token_ids(prompt)
        read = super().parse(model_output, *args, **kwargs)
        _cut.set(self._finish[0] if self.last_call_is_cut else None)
        return read

    def parse_delta(self, delta_text, *args, finished, **kwargs):
        """Read a step; of two kinds, the second goes with the next step's delta."""
        deltas = [*self._waiting]
        if not self._finish[0]:  # serving may say so some steps later: see _steps
            outputs = getattr(_output.get(), "outputs", ())
            if finished or (len(outputs) == 1 and outputs[0].finish_reason):
                self._note_ending(delta_text)
            kwargs["finished"] = self._finish[0] is not None
            deltas += self.parse_deltas(delta_text, *args, **kwargs)
        if finished:
            _cut.set(self._finish[0] if self.last_call_is_cut else None)
            return merge_deltas(deltas)
        kinds = itertools.groupby(deltas, _kind)
        now, *self._waiting = [merge_deltas(list(of)) for _, of in kinds] or [None]
        _left.set(len(self._waiting))
        return now


def _kind(delta):
    return delta.reasoning is None, [call.index for call in delta.tool_calls]


def _mark(items):
    """Items whose last may be a cut call; that of a custom tool has no such state."""
    if not (_cut.get() and items):
        return items
    if items[-1].type != "function_call":
        return items[:-1]
    items[-1].status = "incomplete"
    return items


def _correct(choices):
    for choice in choices:
        if _cut.get() and choice.finish_reason == "tool_calls":
            choice.finish_reason = _cut.get()


async def _noted(outputs):
    async for output in outputs:
        _output.set(output)
        yield output


def _steps(output):
    """Give each kind of a stream's last step a step of its own, and the end another."""
    _output.set(output)
    one = output.outputs[0]
    if len(output.outputs) > 1 or not one.finish_reason:
        yield output
        return
    none = {"text": "", "token_ids": [], "logprobs": one.logprobs and []}
    more = {"finish_reason": None, "stop_reason": None}
    yield _with(output, **more)
    for _ in range(_left.get()):
        yield _with(output, **more, **none)
    yield _with(output, **none)


def _with(output, **fields):
    output = copy.copy(output)
    output.outputs = [dataclasses.replace(output.outputs[0], **fields)]
    return output


async def _stream_chat(stock, self, request, outputs, *args, **kwargs):
    if issubclass(self.parser_cls or object, PluginParser):
        outputs = (step async for output in outputs for step in _steps(output))
    async for chunk in stock(self, request, outputs, *args, **kwargs):
        if _cut.get() and isinstance(chunk, str):
            field = '"finish_reason":"{}"'.format  # a text's quotes are escaped
            chunk = chunk.replace(field("tool_calls"), field(_cut.get()))
        _correct(getattr(chunk, "choices", ()))
        yield chunk


async def _answer_chat(stock, self, request, outputs, *args, **kwargs):
    response = await stock(self, request, _noted(outputs), *args, **kwargs)
    _correct(getattr(response, "choices", ())[-1:])
    return response


def _convert_message(stock, self, response):
    if _cut.get():  # the call's input is no JSON, and stock raises
        del response.choices[0].message.tool_calls[-1:]
    return stock(self, response)


async def _generate_response(stock, *args, **kwargs):
    async for context in stock(*args, **kwargs):
        if not isinstance(getattr(context, "response_parser", None), PluginParser):
            yield context
            continue
        for step in _steps(context.last_output):
            context.last_output = step
            yield context


def _make_items(stock, *args, **kwargs):
    return _mark(stock(*args, **kwargs))


def _close_item(stock, self, *args):
    events = stock(self, *args)
    if not (_cut.get() and events):
        return events
    if _mark([events[-1].item]):
        return events[-1:]
    self.output_items.pop()
    return []


def _wrap(owner, name, new):
    """Put *new* in a method's place; it gets the method before its arguments."""
    stock = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: new(stock, *args, **kwargs))


def install(say):
    """Wrap what makes parsers, what takes outputs and what answers."""

    def get_parser(stock, *, tool_parser_name=None, **named):
        parser = stock(tool_parser_name=tool_parser_name, **named)
        tools = getattr(parser, "tool_parser_cls", None)
        if tools and reads_pair(tool_parser_name, tools, parser.reasoning_parser_cls):
            say(f"reads the calls of {tool_parser_name}. Not covered: {NOT_COVERED}.")
            register()
            lazy = type("QwenToolAdapter", (_LazyEngine, tools), {})
            return type("QwenParser", (PluginParser, parser), {"tool_parser_cls": lazy})
        if tools and tool_parser_name in TOOL_PARSERS:
            say(f"does nothing for {tool_parser_name} beside this reasoning parser.")
        return parser

    raw = "chat_completion_stream_generator_raw"  # from v0.33.0: of chunks, no text
    stream = raw if hasattr(OpenAIServingChat, raw) else raw.removesuffix("_raw")
    _wrap(ParserManager, "get_parser", get_parser)
    _wrap(OpenAIServingChat, stream, _stream_chat)
    _wrap(OpenAIServingChat, "chat_completion_full_generator", _answer_chat)
    _wrap(AnthropicServingMessages, "messages_full_converter", _convert_message)
    _wrap(OpenAIServingResponses, "_generate_with_builtin_tools", _generate_response)
    _wrap(OpenAIServingResponses, "_make_response_output_items", _make_items)
    _wrap(streaming_events.SimpleStreamingEventProcessor, "close_current", _close_item)
