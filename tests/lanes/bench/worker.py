# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.worker``: measure cells in a process with one vLLM tree on its
path.

One JSON document a line in, one out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from bench import workloads
from bench.parsers import Parsers
from bench.serving import Serving
from conformance import lines, tokens


class Bench:
    """Keeps what cells share: tokenizer, workloads, parsers, applications."""

    def __init__(self) -> None:
        self._folder = str(tokens.model_folder())
        self._tokenizer = tokens.load()
        self._paths: dict[str, Any] = {}
        self._cut: dict[tuple[str, int], tuple[Any, list[int], list[str]]] = {}

    def run(self, cell: dict[str, Any], budget: float) -> dict[str, Any]:
        """One sample of a cell."""
        workload, ids, texts = self._workload(cell["workload"], cell["tokens"])
        steps = workloads.steps_of(texts, ids, cell["width"])
        many = cell["workload"].startswith("streams")
        streams = workloads.STREAMS if many else 1
        if cell["path"] not in self._paths:
            made = Parsers if cell["path"] == "parser" else Serving
            self._paths[cell["path"]] = made(self._folder)
        gc.collect()
        gc.freeze()
        sample = self._paths[cell["path"]].time(workload, steps, streams, budget)
        return {"tokens": len(ids) * streams, **sample}

    def _workload(self, name: str, wanted: int) -> tuple[Any, list[int], list[str]]:
        """A workload, its token ids, and what each adds to the text."""
        if (name, wanted) not in self._cut:
            # Two at a time, as growth needs two; the longest takes 100 MB.
            self._cut = dict([*self._cut.items()][-1:])
            made = workloads.build(
                name,
                wanted,
                lambda text: len(
                    self._tokenizer.encode(text, add_special_tokens=False).ids
                ),
            )
            ids = tokens.encode(self._tokenizer, made.output)
            texts = tokens.deltas(self._tokenizer, ids)
            # The end token adds no text.
            end = self._tokenizer.token_to_id(tokens.EOS)
            self._cut[name, wanted] = (made, [*ids, end], [*texts, ""])
        return self._cut[name, wanted]


def begin() -> Callable[[Any], Any]:
    """Answer cells with samples."""
    bench = Bench()
    return lambda asked: bench.run(**asked)


if __name__ == "__main__":
    lines.answer(begin)
