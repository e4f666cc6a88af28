# SPDX-License-Identifier: Apache-2.0
"""Random batches for the kernels of the thinking budget, and a reference in Python that
says what must come out.

Requests come, go and come back in another slot, with and without a budget, with and
without tools; a step takes any of them in any order, each with drafts of which the
model takes some.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

#: The start of a tool call, where it ends the reasoning.
CALL = 100
VOCABULARY = 128
FORCED = 1.0e9
_WORDS = (10, 11, 12)
WHITE_SPACE = (8, 13)
SLOTS = 4
_LENGTH = 4096


@dataclass(frozen=True)
class Markers:
    """Token ids around the reasoning: how it opens, how the model closes it, what is
    forced.
    """

    start: tuple[int, ...] = (90,)
    end: tuple[int, ...] = (91,)
    forced: tuple[int, ...] = (91,)


#: One token each, as Qwen's are, and longer ones.
MARKERS = (
    Markers(),
    Markers((90, 95), (92, 91), (96, 92, 91)),
    Markers((90,), (91,), (96, 91)),
    Markers((90,), (92, 92, 91), (92, 92, 91)),
)


@dataclass
class Request:
    tokens: list[int]
    budget: int | None
    #: How many of the tokens are the prompt's.
    prompt: int
    before_answer: bool
    tools: bool


def reference(
    tokens: Sequence[int], budget: int | None, markers: Markers, request: Request | None
) -> int | None:
    """Return the token that is forced behind ``tokens``, or None; without a
    ``request``, reasoning may open anywhere, and no call ends it.
    """
    if budget is None:
        return None
    begin, ends = len(tokens), [markers.end]
    if request and request.before_answer:
        begin = request.prompt
        ends += [(CALL,)] if request.tools else []
    opened = closed = behind = -1
    for at, token in enumerate(tokens):
        text = tokens[max(begin, behind) : at] if opened <= closed else ()
        if any(other not in WHITE_SPACE for other in text):
            break
        if token == markers.start[0] and _at(tokens, at, markers.start):
            opened = at
        for end in ends:
            if token == end[0] and _at(tokens, at, end):
                closed, behind = at, at + len(end)
    if opened <= closed or len(tokens) - opened - len(markers.start) < budget:
        return None
    begun = 0
    for length in range(1, len(markers.forced)):
        if tuple(tokens[-length:]) == markers.forced[:length]:
            begun = length
    return markers.forced[begun]


def _at(tokens: Sequence[int], begin: int, wanted: Sequence[int]) -> bool:
    return tuple(tokens[begin : begin + len(wanted)]) == tuple(wanted)


@dataclass
class Batches:
    """A run of steps over a tree's ``ThinkingBudgetState``; ``patched`` says whether
    a call may end the reasoning.
    """

    module: ModuleType
    patched: bool
    seed: int
    index: torch.dtype = torch.int64
    markers: Markers = MARKERS[0]
    requests: dict[int, Request] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        # What stands behind a request's tokens is what an earlier one left.
        self.tokens = torch.full((SLOTS, _LENGTH), CALL, dtype=torch.int32)
        self.lengths = torch.zeros(SLOTS, dtype=torch.int32)
        rows = SimpleNamespace(
            max_num_reqs=SLOTS,
            device=torch.get_default_device(),
            all_token_ids=SimpleNamespace(gpu=self.tokens),
            total_len=SimpleNamespace(gpu=self.lengths),
            prompt_len=SimpleNamespace(np=np.zeros(SLOTS, dtype=np.int32)),
        )
        config = SimpleNamespace(
            reasoning_start_token_ids=list(self.markers.start),
            reasoning_end_token_ids=list(self.markers.forced),
            natural_reasoning_end_token_ids=list(self.markers.end),
        )
        if self.patched:
            config.reasoning_markers = SimpleNamespace(
                tool_call=CALL, white_space=frozenset(WHITE_SPACE)
            )
        self.prompts = rows.prompt_len.np
        self.state = self.module.ThinkingBudgetState(rows, config)

    def steps(self, count: int) -> int:
        """Take steps; returns how many rows were compared.

        Raises:
            AssertionError: logits differ from the reference's.
        """
        return sum(self._step() for _ in range(count))

    def words(self, count: int, dense: bool = False) -> list[int]:
        """Return random tokens, some of them (most, if ``dense``) markers, parts of
        markers, and calls around them.
        """
        start, end, forced = self.markers.start, self.markers.end, self.markers.forced
        motifs = (
            start,
            start,
            end,
            forced,
            (CALL,),
            start[:1],
            end[:1],
            forced[:1],
            (*start, 10, CALL, 11, 12, 10),
            (*start, CALL),
            (CALL, *start, *end),
            (CALL, *start),
            (*start, 10, 11, 12, 10),
            (*end, 13, *start, 10),
            (*end, 8, 13, CALL, 13, *start),
            (*end, 13),
            (13,),
        )
        lengths: list[int] = []
        while len(lengths) < count:
            marks = self.random.random() < (0.6 if dense else 0.12)
            lengths += (
                self.random.choice(motifs) if marks else (self.random.choice(_WORDS),)
            )
        return lengths[:count]

    def _arrive(self) -> None:
        free = [slot for slot in range(SLOTS) if slot not in self.requests]
        slot = self.random.choice(free)
        count = self.random.choice((1, 2, 5, 5, 30, 30, 30, 1100, 2300))
        request = Request(
            tokens=self.words(count, dense=count < 30)
            if count < 1000
            else [*self.words(9), *self.words(count)],
            budget=self.random.choice((None, 0, 1, 2, 3, 10, 2**40)),
            prompt=1,
            before_answer=self.random.random() < 0.7,
            tools=self.random.random() < 0.6,
        )
        if count > 1000 and self.random.random() < 0.5:
            # Reasoning that opened some blocks before the end, and nothing but words
            # behind it.
            request.tokens[20:] = [10] * len(request.tokens[20:])
            request.tokens[12 : 12 + len(self.markers.start)] = self.markers.start
        if self.random.random() < 0.6:
            request.tokens += [
                *self.markers.start,
                10,
                *self.random.choice(((CALL,), ())),
                11,
                12,
            ]
        # Some come back with tokens of their output.
        written = self.random.choice((0, 0, 1, 5, 40))
        request.prompt = max(1, len(request.tokens) - written)
        self.requests[slot] = request
        self.add(slot, request)
        self._commit(slot, 0)

    def add(self, slot: int, request: Request) -> None:
        """Tell the sampler of a request, as the chat service describes it."""
        named: dict[str, Any] = {"thinking_token_budget": request.budget}
        if self.patched:
            named["thinks_before_answer"] = request.before_answer
            named["tool_call_ends_thinking"] = request.tools
        self.prompts[slot] = request.prompt
        self.state.add_request(slot, SimpleNamespace(**named))

    def _commit(self, slot: int, begin: int) -> None:
        """Send tokens from ``begin`` on to the device; what an earlier request left
        behind them stays there.
        """
        tokens = self.requests[slot].tokens
        self.tokens[slot, begin : len(tokens)] = torch.tensor(
            tokens[begin:], dtype=torch.int32
        )
        self.lengths[slot] = len(tokens)

    def _step(self) -> int:
        while not self.requests or (
            len(self.requests) < SLOTS and self.random.random() < 0.4
        ):
            self._arrive()
        if len(self.requests) > 1 and self.random.random() < 0.4:
            del self.requests[self.random.choice(list(self.requests))]
        self.state.apply_staged_writes()
        chosen = self.random.sample(
            list(self.requests), self.random.randint(1, len(self.requests))
        )
        drafts = {
            slot: self.words(self.random.randint(0, 5), dense=True) for slot in chosen
        }
        given, rows, positions, expected = [], [], [], []
        for slot in chosen:
            request = self.requests[slot]
            given += [request.tokens[-1], *drafts[slot]]
            for count in range(len(drafts[slot]) + 1):
                rows.append(slot)
                positions.append(count)
                seen = [*request.tokens, *drafts[slot][:count]]
                expected.append(
                    reference(
                        seen,
                        request.budget,
                        self.markers,
                        request if self.patched else None,
                    )
                )
        before = torch.rand((len(rows), VOCABULARY))
        after = before.clone()
        self.prepared(after, chosen, rows, positions, given)()
        for row, forced in enumerate(expected):
            if forced is not None:
                before[row, forced] = FORCED
        if not torch.equal(before, after):
            wrong = (before != after).any(dim=1).nonzero().flatten().tolist()
            shown = [
                (rows[row], positions[row], expected[row], int(after[row].argmax()))
                for row in wrong[:4]
            ]
            raise AssertionError(
                f"seed {self.seed}: (slot, drafts, token expected, greatest) "
                f"differ: {shown}"
            )
        self._sample(
            drafts, dict(zip(zip(rows, positions, strict=True), expected, strict=True))
        )
        return len(rows)

    def _sample(
        self, drafts: dict[int, list[int]], forced: dict[tuple[int, int], int | None]
    ) -> None:
        """Let the model take some drafts and one token of its own; the others are
        rejected.
        """
        for slot, drafted in drafts.items():
            request = self.requests[slot]
            begin = len(request.tokens)
            for count, token in enumerate([*drafted, *self.words(1, dense=True)]):
                wanted = forced[(slot, count)]
                own = token if wanted is None else wanted
                request.tokens.append(own)
                if own != token or self.random.random() < 0.25:
                    break
            if len(request.tokens) > _LENGTH - 16:
                del self.requests[slot]
                continue
            self._commit(slot, begin)

    def prepared(
        self,
        logits: torch.Tensor,
        chosen: Sequence[int],
        rows: Sequence[int],
        positions: Sequence[int],
        given: Sequence[int],
    ) -> Callable[[], None]:
        """Return one step of the sampler, its tensors of the types that the model
        runner makes.
        """
        slots = torch.tensor(chosen, dtype=self.index)
        named: dict[str, Any] = {
            "idx_mapping": slots,
            "idx_mapping_np": slots.cpu().numpy(),
            "expanded_idx_mapping": torch.tensor(rows, dtype=self.index),
            "input_ids": torch.tensor(given, dtype=torch.int32),
            "expanded_local_pos": torch.tensor(positions, dtype=torch.int32),
        }
        if "ctx" in inspect.signature(self.state.apply).parameters:
            return lambda: self.state.apply(logits, SimpleNamespace(**named))
        return lambda: self.state.apply(logits, **named)
