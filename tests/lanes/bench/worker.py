# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.worker``: measure cells in a process with one vLLM tree on its
path.

One JSON document a line in, one out.
"""

import functools
import gc
from typing import Any

from bench import workloads
from bench.parsers import Parsers
from bench.serving import Serving
from conformance import lines, tokens


@functools.cache
def _path(name: str) -> Any:
    """Return the parsers or the applications of the tree."""
    made = Parsers if name == "parser" else Serving
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
    cell = asked["cell"]
    workload, ids, texts = _workload(cell["workload"], cell["tokens"])
    steps = workloads.steps_of(texts, ids, cell["width"])
    streams = workloads.STREAMS if cell["workload"].startswith("streams") else 1
    path = _path(cell["path"])
    gc.collect()
    gc.freeze()
    found = path.time(workload, steps, streams, asked["budget"])
    return {"tokens": len(ids) * streams, **found}


if __name__ == "__main__":
    lines.answer(lambda: sample)
