# SPDX-License-Identifier: Apache-2.0
"""Decodes a scripted output under ``thinking_token_budget``, with a tree's own
enforcement and no engine.

The scripted model wants the same token at a position whatever came before it, so that a
forced token is seen as what it is: a token that the script does not have there.
"""

import copy
import inspect
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch

from conformance.host.engine import MODEL
from harness import TOOLS, application, post, script, wrapped_tokenizer

#: Rows of logits at the next positions: (tokens so far, drafts, logits of len(drafts) +
#: 1 rows) -> None.
Enforcer = Callable[[list[int], list[int], torch.Tensor], None]

_CPU = torch.device("cpu")


def has_drafts() -> bool:
    """Whether the enforcement knows drafts."""
    return find_spec("vllm.v1.sample.thinking_budget_state") is not None


def configuration(monkeypatch: Any, parser: str, end: str) -> Any:
    """The tree's ``ReasoningConfig`` as the server makes it from the command line."""
    from vllm.config import reasoning

    monkeypatch.setattr(
        reasoning, "cached_tokenizer_from_config", lambda **_: wrapped_tokenizer()
    )
    made = reasoning.ReasoningConfig(
        reasoning_start_str="<think>", reasoning_end_str=end
    )
    if hasattr(made, "reasoning_parser"):
        made.reasoning_parser = parser
        made.initialize_token_ids(None)
    elif "reasoning_parser" in inspect.signature(made.initialize_token_ids).parameters:
        made.initialize_token_ids(None, parser)
    else:
        made.initialize_token_ids(None)
    return made


def sampling_params(
    budget: int, tool_choice: str | None, reasoning: str, parser: str
) -> Any:
    """The sampling parameters that the chat service of a server with this pair of
    parsers makes of a request; without tools for no tool choice.
    """
    app = application(reasoning, parser)
    tools = {} if tool_choice is None else {"tools": TOOLS, "tool_choice": tool_choice}
    said = [{"role": "user", "content": "?"}]
    body = {"model": MODEL, "messages": said, "thinking_token_budget": budget, **tools}
    post(app, "/v1/chat/completions", body, script("Hm.", 100_000))
    return copy.copy(app.state.params)


def _added(prompt: list[int], output: list[int], params: Any) -> Any:
    from vllm.v1.sample.logits_processor.interface import BatchUpdate

    return BatchUpdate(
        batch_size=1, removed=(), added=[(0, params, prompt, output)], moved=()
    )


def _holder(
    monkeypatch: Any, config: Any, prompt: list[int], params: Any, drafts: int
) -> Enforcer:
    from vllm.v1.sample import thinking_budget_state
    from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

    # The tree's own wants pinned memory, which needs a device.
    monkeypatch.setattr(
        thinking_budget_state,
        "async_tensor_h2d",
        lambda data, dtype, device: torch.tensor(data, dtype=dtype),
        raising=False,
    )
    holder = ThinkingBudgetStateHolder(config, 1, drafts, _CPU, False)
    holder.sync_batch(_added(prompt, [], params))
    # Older samplers hand over the drafts behind the output.
    combined = "spec_len" in ThinkingBudgetStateHolder.update_state.__code__.co_varnames

    def enforce(output: list[int], draft: list[int], logits: torch.Tensor) -> None:
        holder.update_state([output + draft if combined else list(output)], [draft])
        if draft:
            holder.apply_to_logits(logits[-1:], True, [draft])
            holder.apply_to_logits(logits[:-1], False, [draft])
        else:
            holder.apply_to_logits(logits, bool(drafts), [draft])

    return enforce


def _processor(
    monkeypatch: Any, config: Any, prompt: list[int], params: Any, drafts: int
) -> Enforcer:
    from vllm.v1.sample.logits_processor.builtin import (
        ThinkingTokenBudgetLogitsProcessor,
    )

    server = SimpleNamespace(
        reasoning_config=config,
        scheduler_config=SimpleNamespace(max_num_seqs=1),
        speculative_config=None,
    )
    processor = ThinkingTokenBudgetLogitsProcessor(server, _CPU, False)
    shared: list[int] = []
    if getattr(config, "reasoning_markers", None) is None or (
        not params.thinks_before_answer
    ):
        # Stock lets one token more through than the later releases do.
        params.thinking_token_budget = max(0, params.thinking_token_budget - 1)
    update = [_added(prompt, shared, params)]

    def enforce(output: list[int], draft: list[int], logits: torch.Tensor) -> None:
        shared[:] = output
        processor.update_state(update.pop() if update else None)
        processor.apply(logits)

    return enforce


def enforcer(
    monkeypatch: Any, config: Any, prompt: list[int], params: Any, drafts: int
) -> Enforcer:
    """The enforcement of the release's V1 runner; the V2 runner's kernels have
    ``nox -s kernels``.
    """
    make = _holder if has_drafts() else _processor
    return make(monkeypatch, config, prompt, params, drafts)


def decode(
    enforce: Enforcer, script: list[int], draft: Callable[[int], list[int]]
) -> list[int]:
    """The output of the scripted model; ``draft(n)`` are the drafts for the
    positions from ``n``.
    """
    output: list[int] = []
    while len(output) < len(script):
        drafts = draft(len(output))[: len(script) - len(output) - 1]
        logits = torch.zeros((len(drafts) + 1, len(wrapped_tokenizer())))
        for row in range(len(drafts) + 1):
            logits[row, script[len(output) + row]] = 1.0
        enforce(output, drafts, logits)
        chosen = logits.argmax(dim=1).tolist()
        right = next(
            (row for row, token in enumerate(drafts) if token != chosen[row]),
            len(drafts),
        )
        output += chosen[: right + 1]
    return output
