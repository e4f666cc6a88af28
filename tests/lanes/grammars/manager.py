# SPDX-License-Identifier: Apache-2.0
"""A release's own StructuredOutputManager, called as its scheduler calls it.

The request's grammar is what the release's application made of a body: its engine is
scripted, and its ``generate`` is handed the parameters.
"""

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from conformance import tokens

#: A grammar that takes longer to compile, in seconds, is a hang.
COMPILE_S = 60
_numbers = itertools.count()


class Recorder:
    """What an application hands to its engine core.

    Args:
        app: Of ``conformance.host.engine.build``; its ``generate`` is replaced.
    """

    def __init__(self, app: Any) -> None:
        self.request: Any = None  # the last, as the engine core gets it
        engine = app.state.engine_client
        self.config = engine.vllm_config
        process, generate = engine.input_processor.process_inputs, engine.generate

        def recorded(prompt: Any, params: Any, *args: Any, **more: Any) -> Any:
            request = prompt
            if not hasattr(prompt, "sampling_params"):  # made already, in v0.16.0
                request = process(
                    f"r{next(_numbers)}", prompt, params, supported_tasks=("generate",)
                )
            for name in ("reasoning_ended", "reasoning_parser_kwargs"):
                if more.get(name) is not None:
                    setattr(request, name, more[name])
            self.request = request
            return generate(prompt, params, *args, **more)

        engine.generate = recorded


@dataclass(frozen=True)
class Stop:
    """Where the mask refused the next token of an output."""

    at: int  # tokens that were taken
    ends: bool  # nothing but the end of the output was admitted


class Manager:
    """The release's manager for ``k`` drafts a step.

    Args:
        config: The application's ``VllmConfig``.
        k: Drafts a step, from 0.
    """

    def __init__(self, config: Any, k: int) -> None:
        from vllm.v1.structured_output import StructuredOutputManager

        self.k = k
        config = copy.copy(config)
        drafts = SimpleNamespace(num_speculative_tokens=k) if k else None
        object.__setattr__(config, "speculative_config", drafts)
        self._manager = StructuredOutputManager(config)
        self.end = tokens.load().token_to_id(tokens.EOS)
        self.seconds = 0.0  # of the CPU, in the calls of all requests so far
        self.masks = 0  # made in them

    def open(self, wanted: Any) -> Any:
        """A request with its grammar compiled; None if it has no grammar.

        Args:
            wanted: What a :class:`Recorder` has.

        Raises:
            ValueError: the grammar does not compile.
        """
        from vllm.v1.request import Request

        if wanted.sampling_params.structured_outputs is None:
            return None
        request = Request.from_engine_core_request(copy.deepcopy(wanted), None)
        self._manager.grammar_init(request)
        made = request.structured_output_request
        begun = time.monotonic()
        try:
            while not made.is_grammar_ready:
                if time.monotonic() - begun > COMPILE_S:
                    raise ValueError(f"no grammar after {COMPILE_S} s")
                time.sleep(0.001)
            if isinstance(made.grammar, BaseException):
                raise made.grammar
        except Exception as error:
            raise ValueError(f"no grammar: {error}") from error
        return request

    def walk(
        self,
        request: Any,
        output: Sequence[int],
        draft: Callable[[int], list[int]] | None = None,
    ) -> Stop | None:
        """Say an output, token by token; where it is refused, or None.

        Args:
            output: Token ids, the end's too.
            draft: Drafts behind so many tokens; the output's own if it is not given.
        """
        at = 0
        while at < len(output):
            drafts: list[int] = []
            if self.k and at:
                drafts = list(draft(at) if draft else output[at : at + self.k])
                drafts = self._validated(request, drafts)
            rows = self._masks(request, drafts)
            taken = 0
            for row, drafted in zip(rows, [*drafts, None], strict=False):
                if at + taken == len(output):
                    break
                wanted = output[at + taken]
                if not admits(row, wanted):
                    self._accept(request, output[at : at + taken])
                    return Stop(at + taken, all_admitted(row) == [self.end])
                taken += 1
                if drafted != wanted:
                    break
            if not self._accept(request, output[at : at + taken]):
                return Stop(at, ends=False)
            at += taken
        return None

    def _masks(self, request: Any, drafts: list[int]) -> Any:
        name = request.request_id
        begun = time.thread_time()
        rows = self._manager.grammar_bitmask({name: request}, [name], {name: drafts})
        self.seconds += time.thread_time() - begun
        self.masks += 1 + len(drafts)
        return rows[: 1 + len(drafts)]

    def _validated(self, request: Any, drafts: list[int]) -> list[int]:
        begun = time.thread_time()
        if hasattr(self._manager, "validate_tokens"):  # since v0.30.0
            drafts = list(self._manager.validate_tokens(request, drafts))
        elif self._manager.should_advance(request):
            grammar = request.structured_output_request.grammar
            drafts = list(grammar.validate_tokens(drafts))
        self.seconds += time.thread_time() - begun
        return drafts

    def _accept(self, request: Any, new: Sequence[int]) -> bool:
        """Append new tokens to the request, as the scheduler does; False if refused."""
        if not new:
            return True
        # What is sampled last is not computed yet.
        request.num_computed_tokens = request.num_tokens
        request.append_output_token_ids(list(new))
        manager, begun = self._manager, time.thread_time()
        if hasattr(manager, "accept_tokens"):  # since v0.30.0
            taken = manager.accept_tokens(request, list(new))
        else:
            taken = self._advance(request, list(new))
        self.seconds += time.thread_time() - begun
        return bool(taken)

    def _advance(self, request: Any, new: list[int]) -> bool:
        manager = self._manager
        named = "new_token_ids" in manager.should_advance.__code__.co_varnames
        if not manager.should_advance(
            request, **({"new_token_ids": new} if named else {})
        ):
            return True
        if hasattr(manager, "trim_reasoning_for_advance"):
            new = manager.trim_reasoning_for_advance(request, new)
        grammar = request.structured_output_request.grammar
        return not new or bool(grammar.accept_tokens(request.request_id, new))


def admits(row: Any, token: int) -> bool:
    return bool((int(row[token // 32]) >> (token % 32)) & 1)


def all_admitted(row: Any) -> list[int]:
    import numpy as np

    bits = np.unpackbits(row.view("u1"), bitorder="little")
    return [int(token) for token in bits.nonzero()[0]]
