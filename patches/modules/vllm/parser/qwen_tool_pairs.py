# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""One parser for an output in the Qwen3-Coder tool-call format.

:class:`QwenToolReader` reads the whole output, reasoning included, because only
a reader that knows the request's tools can tell where a call begins in it.
Streamed and not streamed output take the same way.

This is for a tool parser of :data:`TOOL_PARSERS`, alone or with a reasoning parser
of :data:`REASONING_PARSERS`.  ``VLLM_QWEN_TOOL_READER=0`` leaves them the parsers of
the release, which every other pair has in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import vllm.envs as envs
from vllm.parser.abstract_parser import DelegatingParser
from vllm.parser.qwen_tool_deltas import (
    DeltaMessage,
    FunctionCall,
    assemble,
    log_other_parser,
    log_reader,
    merge_deltas,
    text_message,
)
from vllm.parser.qwen_tool_tokens import THINK_END, THINK_START, TOOL_CALL_START
from vllm.reasoning import _REASONING_PARSERS_TO_REGISTER
from vllm.tool_parsers import _TOOL_PARSERS_TO_REGISTER

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

    Request = ChatCompletionRequest | ResponsesRequest

# Those whose models write the Qwen3-Coder format.
TOOL_PARSERS = ("qwen3_coder", "qwen3_xml", "step3p5", "step5")
# Those for which reasoning is what stands between <think> and </think>.
REASONING_PARSERS = ("qwen3", "nemotron_v3", "deepseek_r1", "step3p5")

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
# Tokens that end the output or fill it up, beside those that the tokenizer names.
_END_TOKENS = (TURN_END, "<|endoftext|>")


def reads_pair(
    tool_parser_name: str | None,
    tool_parser_cls: type | None,
    reasoning_parser_cls: type | None,
) -> bool:
    """Whether a :class:`QwenParser` serves this pair of parsers.

    The classes must be the release's own: a plugin may have put its own under
    the same name.
    """
    if tool_parser_name not in TOOL_PARSERS or tool_parser_cls is None:
        return False
    if tool_parser_cls is not _registered_tool_parser(tool_parser_name):
        log_other_parser(tool_parser_name, tool_parser_cls)
        return False
    if reasoning_parser_cls is not None and reasoning_parser_cls not in map(
        _registered_reasoning_parser, REASONING_PARSERS
    ):
        return False
    log_reader()
    return True


def _registered_tool_parser(name: str) -> type | None:
    return _registered("tool_parsers", _TOOL_PARSERS_TO_REGISTER.get(name))


def _registered_reasoning_parser(name: str) -> type | None:
    return _registered("reasoning", _REASONING_PARSERS_TO_REGISTER.get(name))


def _registered(package: str, names: tuple[str, str] | None) -> type | None:
    if names is None:  # of a later release
        return None
    file_name, class_name = names
    return getattr(import_module(f"vllm.{package}.{file_name}"), class_name)


class QwenParser(DelegatingParser):
    """Parser for reasoning and calls together.

    The two parsers that it stands for still answer what is asked about token
    ids.
    """

    #: A frontend without this reader reads otherwise: ``vllm serve`` asks.
    reads_whole_output = True
    #: ``parallel_tool_calls: false`` needs no grammar, which could not tell a call
    #: from one that the text quotes: ``vllm`` asks.
    keeps_first_call = True
    #: What models write behind the reasoning, before JSON as well.
    output_space = r"[ \t\n]{0,16}"
    #: What serving takes in place of a ``text_message``; set before the first step.
    text_delta_cls: type | None = None

    # How an output is read that begins in the reasoning, or does not.
    _open_stream: Callable[[Request], Any]

    _stream: Any = None  # of the deltas
    _last_opened: Any = None
    _finish: tuple[str | None, int | str | None] = (None, None)
    _prompt_token_ids: Sequence[int] = ()
    _thought: list[str] | None = None  # where it may turn out to be the answer
    _takes_one_call = False
    _held_call: list[DeltaMessage] | None = None  # where a cut one is left out
    _leaves_out_calls = False
    _leaves_out_reasoning = False
    # Reads a step that is not the last, where no delta is merged or left out.
    _feed: Callable[[str], list[Any]] | None = None

    def __init__(
        self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)
        template = kwargs.get("chat_template_kwargs") or {}
        self._thinking = template.get("enable_thinking", True)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int] | None) -> None:
        """Tell the prompt, which may have opened or closed the reasoning."""
        self._prompt_token_ids = prompt_token_ids or ()

    def set_finish_reason(
        self, finish_reason: str | None, stop_reason: int | str | None = None
    ) -> None:
        """Tell why the output ends, before its last part is parsed."""
        self._finish = finish_reason, stop_reason

    def _ending(self, request: Request) -> tuple[str | None, int | str | None]:
        """Why the output ends; a token that the request stops at is a stop string."""
        finish_reason, stop_reason = self._finish
        stop_token_ids = getattr(request, "stop_token_ids", None) or ()
        if isinstance(stop_reason, int) and stop_reason in stop_token_ids:
            stop_reason = self.model_tokenizer.decode([stop_reason])
        return finish_reason, stop_reason

    @property
    def last_call_is_cut(self) -> bool:
        """Whether the output ended within the last call that is delivered."""
        stream = self._last_opened
        return stream is not None and stream.call_is_cut and not self._leaves_out_calls

    def _begins_in_reasoning(self) -> bool:
        if self._reasoning_parser is None:
            return False
        told = self._prompt_opens_reasoning()
        return bool(self._thinking) if told is None else told

    def _prompt_opens_reasoning(self) -> bool | None:
        """What the last turn of the prompt says; ``None`` if nothing."""
        vocab = self._reasoning_parser.vocab
        for token_id in reversed(self._prompt_token_ids):
            if token_id == vocab.get(THINK_START):
                return True
            if token_id in (vocab.get(THINK_END), vocab.get(TOOL_CALL_START)):
                return False
            if token_id == vocab.get(TURN_START):
                break
        return None

    def _keeps_space(self) -> bool:
        """Whether white space behind the answer is its own, as in Step-5's template."""
        step5 = _registered_tool_parser("step5")
        return step5 is not None and isinstance(self._tool_parser, step5)

    def _prefix(self) -> str:
        """The answer's text that the prompt ends in, which the output goes on with."""
        start = self.model_tokenizer.get_vocab().get(TURN_START)
        turn: list[int] = []
        for token_id in reversed(self._prompt_token_ids if start is not None else ()):
            if token_id != start:
                turn.append(token_id)
                continue
            role, _, text = self.model_tokenizer.decode(turn[::-1]).partition("\n")
            text = text.rpartition(THINK_END)[2].lstrip("\n")
            is_open = role == "assistant" and TURN_END not in text
            return text if is_open and THINK_START not in text else ""
        return ""

    def parse(
        self,
        model_output: str,
        request: Request,
        enable_auto_tools: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        stream = self._open(request)
        token_ids = kwargs.get("model_output_token_ids") or ()
        model_output = self._without_end_tokens(model_output, token_ids, request)
        deltas = stream.feed(model_output) + stream.end(request, *self._ending(request))
        if self._takes_one_call:
            deltas = self._first_call(deltas)
        if self._held_call is not None:
            deltas = self._whole_calls(deltas, finished=True)
        reasoning, content, calls = assemble(deltas)
        must_answer = self._must_answer(request)
        if must_answer and not calls and not (content or "").strip():
            reasoning, content = content, reasoning
        return reasoning, content, calls

    def parse_deltas(
        self,
        delta_text: str,
        delta_token_ids: Sequence[int],
        request: Request,
        prompt_token_ids: Sequence[int] | None = None,
        *,
        finished: bool,
    ) -> list[DeltaMessage]:
        """Deltas of one step, each of one kind, in the order of the output."""
        stream = self._stream
        if stream is None:
            if prompt_token_ids is not None:
                self.set_prompt_token_ids(prompt_token_ids)
            self._stream = stream = self._open(request)
            self._thought = [] if self._must_answer(request) else None
            # Deltas that may be merged or filtered must be models.
            are_kept = not self._takes_one_call and self._held_call is None
            if self.text_delta_cls is not None and are_kept:
                stream.make_text = self.text_delta_cls
                if self._thought is None and not self._leaves_out_reasoning:
                    self._feed = stream.feed
        if finished:
            stream.make_text = text_message  # a finish reason goes with a model
            delta_text = self._without_end_tokens(delta_text, delta_token_ids, request)
        deltas = stream.feed(delta_text)
        if finished:
            deltas += stream.end(request, *self._ending(request))
        if self._takes_one_call:
            deltas = self._first_call(deltas)
        if self._held_call is not None:
            deltas = self._whole_calls(deltas, finished=finished)
        if self._thought is not None:
            self._answer_with_reasoning(deltas, finished)
        if self._leaves_out_reasoning:
            deltas = [delta for delta in deltas if delta.reasoning is None]
        return deltas

    def _open(self, request: Request) -> Any:
        self._takes_one_call = getattr(request, "parallel_tool_calls", True) is False
        # Only chat requests have it.
        self._leaves_out_reasoning = not getattr(request, "include_reasoning", True)
        self._leaves_out_calls = False
        # The plugin's vLLM does not know the variable.
        drops = getattr(envs, "VLLM_QWEN_CUT_CALLS", "send") == "drop"
        self._held_call = [] if drops else None
        self._last_opened = self._open_stream(request)
        return self._last_opened

    def _first_call(self, deltas: list[DeltaMessage]) -> list[DeltaMessage]:
        """The deltas without further calls, of which the request takes none."""
        kept = [
            one for one in deltas if not one.tool_calls or one.tool_calls[0].index == 0
        ]
        self._leaves_out_calls |= len(kept) < len(deltas)
        return kept

    def _whole_calls(
        self, deltas: list[DeltaMessage], *, finished: bool
    ) -> list[DeltaMessage]:
        """The deltas, a call's as one once something follows it or the output ends.

        The last call is left out if it was cut.
        """
        held, whole = self._held_call or [], list[DeltaMessage]()
        for delta in deltas:
            follows = not delta.tool_calls or (
                held and held[0].tool_calls[0].index != delta.tool_calls[0].index
            )
            if held and follows:
                whole += [merge_deltas(held)]
                held = []
            (held if delta.tool_calls else whole).append(delta)
        if finished and held:
            if self.last_call_is_cut:
                self._leaves_out_calls = True
            else:
                whole += [merge_deltas(held)]
            held = []
        self._held_call = held
        return whole

    def _answer_with_reasoning(
        self, deltas: list[DeltaMessage], finished: bool
    ) -> None:
        assert self._thought is not None
        self._thought += [delta.reasoning or "" for delta in deltas]
        if any(one.tool_calls or (one.content or "").strip() for one in deltas):
            self._thought = None
        elif finished and (answer := "".join(self._thought)):
            deltas.append(DeltaMessage(content=answer))

    def _must_answer(self, request: Request) -> bool:
        """Whether reasoning is the answer of an output that has no other.

        Nemotron's chat templates have this switch.
        """
        template = getattr(request, "chat_template_kwargs", None) or {}
        nemotron = _registered_reasoning_parser("nemotron_v3")
        return (
            template.get("force_nonempty_content") is True
            and nemotron is not None
            and isinstance(self._reasoning_parser, nemotron)
        )

    def _without_end_tokens(
        self, text: str, token_ids: Sequence[int], request: Request
    ) -> str:
        """The output's last text without that of the tokens behind what was said.

        A request may want it kept.  A model that writes about these tokens spells
        them with others.

        ``token_ids`` are the text's; some releases do not tell them where nothing is
        streamed.
        """
        tokenizer, vocab = self.model_tokenizer, self.model_tokenizer.get_vocab()
        ends = {getattr(tokenizer, f"{name}_token_id", None) for name in ("eos", "pad")}
        ends.update(map(vocab.get, _END_TOKENS))
        ends.discard(None)
        last = list(token_ids[-16:])
        finish_reason, stop_reason = self._finish
        is_kept = getattr(request, "include_stop_str_in_output", False)
        if not last and is_kept and finish_reason == "stop":
            last = [tokenizer.eos_token_id if stop_reason is None else stop_reason]
        while last and last[-1] in ends:
            tag = tokenizer.decode([last.pop()])
            is_spelled = tokenizer.decode(last).endswith(tag)
            if not text.endswith(tag * (1 + is_spelled)):
                break
            text = text.removesuffix(tag)
        return text
