# SPDX-License-Identifier: Apache-2.0
"""The parser of the vLLM tree on the path, opened and fed as its serving code does."""

import time
from collections.abc import Callable
from typing import Any

from bench.workloads import TOOLS, Step, Workload

PARSER = "qwen3_coder"
#: A sample repeats a short stream for this long, in seconds, and no longer: other work
#: on the processor comes and goes within seconds.
LEAST_SECONDS = 0.02
#: Steps between two looks at the clock.
_LOOK = 256

#: Takes a step's text, its token ids, and whether the output ends.
Feed = Callable[[str, list[int], bool], Any]


class Parsers:
    """Opens and times parsers."""

    def __init__(self, model_folder: str) -> None:
        from conformance.host.engine import use_cpu_platform

        use_cpu_platform()
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionRequest,
        )
        from vllm.parser.abstract_parser import Parser
        from vllm.parser.parser_manager import ParserManager
        from vllm.tokenizers import get_tokenizer

        self._manager = ParserManager
        # As serving has it: with the vocabulary cached.
        self._tokenizer = get_tokenizer(model_folder)
        asked = [{"role": "user", "content": "hello"}]
        self._request = ChatCompletionRequest(
            model="scripted", messages=asked, tools=TOOLS, stream=True
        )
        # Where the chat service asks for a step's deltas instead of its one delta.
        self._many = hasattr(Parser, "parse_deltas")

    def opener(self, workload: Workload) -> Callable[[], Feed]:
        """Return what opens the parser of one stream."""
        reasoning = "qwen3" if workload.reasoning else None
        parser = self._manager.get_parser(PARSER, reasoning, True)
        end = "<|im_start|>assistant\n" + ("<think>\n" if workload.reasoning else "")
        prompt = self._tokenizer.encode(end, add_special_tokens=False)
        name = "parse_deltas" if self._many else "parse_delta"
        request = self._request

        def open_stream() -> Feed:
            parse = getattr(parser(self._tokenizer, request.tools), name)
            return lambda text, ids, finished: parse(
                text, ids, request, prompt, finished=finished
            )

        return open_stream

    def time(
        self, workload: Workload, steps: list[Step], streams: int, budget: float
    ) -> dict[str, Any]:
        """Return seconds of a pass over all steps, the parsers' opening included.

        A pass that takes longer than ``budget`` seconds is given up.
        """
        opener = self.opener(workload)
        return repeated(lambda limit: feed(opener, steps, streams, limit), budget)


def feed(
    opener: Callable[[], Feed], steps: list[Step], streams: int, limit: float
) -> float:
    """Feed streams, a step of each in turn, until ``limit``; the share that was fed."""
    feeds = [opener() for _ in range(streams)]
    last = len(steps) - 1
    for number, (text, ids) in enumerate(steps):
        for one in feeds:
            one(text, ids, number == last)
        if not number * streams % _LOOK and time.thread_time() > limit:
            return (number + 1) / len(steps)
    return 1.0


def repeated(make: Callable[[float], float], budget: float) -> dict[str, Any]:
    """Make passes for ``LEAST_SECONDS``; ``make`` takes a time limit, gives a share."""
    passes, spent = 0, 0.0
    while passes == 0 or spent < LEAST_SECONDS:
        began = time.thread_time()
        done = make(began + budget)
        spent += time.thread_time() - began
        passes += 1
        if done < 1:
            return {"bounded": True, "seconds": spent / passes, "done": done}
    return {"seconds": spent / passes, "passes": passes}
