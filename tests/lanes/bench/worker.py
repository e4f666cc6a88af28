# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.worker``: measure cells in a process with one vLLM tree on its
path.

One JSON document a line in, one out.
"""

import functools
import gc
from typing import Any

from bench import workloads
from bench.cells import Cell
from bench.parsers import Parsers
from bench.process import Process
from conformance import lines, tokens


@functools.cache
def _path(name: str) -> Any:
    """Return the parsers or the API process of the tree."""
    made = Parsers if name == "parser" else Process
    return made(str(tokens.model_folder()))


# Two at a time, as growth needs two; the longest takes 100 MB.
@functools.lru_cache(maxsize=2)
def _workload(name: str, wanted: int) -> tuple[Any, list[int], list[str]]:
    """Return a workload, its token ids, and what each adds to the text."""
    tokenizer = tokens.load()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    made = workloads.build(name, wanted, count)
    ids = tokens.encode(tokenizer, made.output)
    texts = tokens.deltas(tokenizer, ids)
    # The end token adds no text.
    return made, [*ids, tokenizer.token_to_id(tokens.EOS)], [*texts, ""]


def sample(asked: dict[str, Any]) -> dict[str, Any]:
    """Return one sample of a cell."""
    cell, budget = Cell(**asked["cell"]), asked["budget"]
    workload, ids, texts = _workload(cell.workload, cell.tokens)
    streams = workloads.STREAMS if cell.workload.startswith("streams") else 1
    is_parser = cell.path == "parser"
    path = _path("parser" if is_parser else "process")
    steps = workloads.steps_of(texts, ids, cell.width) if is_parser else []
    gc.collect()
    gc.freeze()
    if is_parser:
        found = path.time(workload, steps, streams, budget)
    else:
        found = path.time(cell.path, workload, ids, cell.width, streams, budget)
    return {"tokens": len(ids) * streams, **found}


if __name__ == "__main__":
    lines.answer(lambda: sample)
