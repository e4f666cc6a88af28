# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Which ``<tool_call>`` in the reasoning begins the answer's grammar.

One that begins a line does, as ``</think>`` does.  Any other is spoken about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import vllm.envs as envs

if TYPE_CHECKING:
    from vllm.reasoning import ReasoningParser
    from vllm.v1.request import Request

_THINK_START, _TOOL_CALL_START = "<think>", "<tool_call>"
_HIDDEN = -1  # the id of no token


def without_quoted_openings(
    request: Request,
    reasoner: ReasoningParser,
    new_token_ids: Sequence[int],
    are_committed: bool = False,
) -> Sequence[int]:
    """The tokens, those left out that do not begin the answer though they look it.

    ``are_committed`` says whether the request has them; else they are drafts.
    """
    if not new_token_ids or not _has_calls(request):
        return new_token_ids
    before = request.all_token_ids[-1 - len(new_token_ids) * are_committed]
    return _shown(reasoner, new_token_ids, before)


def hide_quoted_openings(request: Request, reasoner: ReasoningParser) -> None:
    """Let a request's parser look for the reasoning's end without them."""
    if not _has_calls(request):
        return
    ends = reasoner.is_reasoning_end_streaming

    def ends_streaming(input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        return ends(_shown(reasoner, list(input_ids)), delta_ids)

    reasoner.is_reasoning_end_streaming = ends_streaming


def _has_calls(request: Request) -> bool:
    """Whether the grammar is that of calls which QwenToolReader reads."""
    params = request.sampling_params
    outputs = params.structured_outputs if params is not None else None
    tag = outputs.structural_tag if outputs is not None else None
    return envs.VLLM_QWEN_TOOL_READER and tag is not None and "<function=" in tag


def _shown(
    reasoner: ReasoningParser, token_ids: Sequence[int], before: int | None = None
) -> Sequence[int]:
    opening = reasoner.vocab.get(_TOOL_CALL_START)
    if opening not in token_ids:
        return token_ids
    shown = list(token_ids)
    for index, token_id in enumerate(token_ids):
        last = token_ids[index - 1] if index else before
        if token_id == opening and last is not None:
            text = reasoner.model_tokenizer.decode([last])
            if not text.endswith(("\n", _THINK_START)):
                shown[index] = _HIDDEN
    return shown
