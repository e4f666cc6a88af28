# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.worker``: measures cells, one JSON document a line in and one out, in a process of its own.

A vLLM tree stands on ``PYTHONPATH``, or another engine is named by ``--peer`` and its unpacked wheel by ``--folder``. What
either prints goes to standard error.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def peer_opener(peer: str, folder: Path) -> Any:
    """What opens a stream of another engine."""
    from bench import peer_parsers

    return peer_parsers.opener(peer, folder)


class Bench:
    """Keeps what cells share: tokenizer, workloads, parsers, application."""

    def __init__(self, peer: str | None = None, folder: Path | None = None) -> None:
        from conformance import tokens

        self._folder = str(tokens.model_folder())
        self._tokenizer = tokens.load()
        self._peer = peer_opener(peer, folder) if peer and folder else None
        self._tree: Any = None
        self._serving: Any = None
        self._cut: dict[tuple[str, int], tuple[Any, list[int], list[str]]] = {}
        self._seen: dict[str, dict[str, Any]] = {}

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def cut(self, name: str, wanted: int) -> tuple[Any, list[int], list[str]]:
        """A workload, its token ids, and what each adds to the text."""
        from bench import workloads
        from conformance import tokens

        if (name, wanted) not in self._cut:
            # Two at a time, as growth is measured with two; the longest takes 100 MB.
            self._cut = dict([*self._cut.items()][-1:])
            made = workloads.build(name, wanted, self.count)
            ids = tokens.encode(self._tokenizer, made.output)
            texts = tokens.deltas(self._tokenizer, ids)
            # The end token adds no text.
            end = self._tokenizer.token_to_id(tokens.EOS)
            self._cut[name, wanted] = (made, [*ids, end], [*texts, ""])
        return self._cut[name, wanted]

    def opener(self, parser: str, workload: Any) -> Any:
        """What opens a stream's parser."""
        if self._peer is not None:
            return self._peer
        if self._tree is None:
            from bench.tree_parsers import TreeParsers

            self._tree = TreeParsers(self._folder)
        return (
            self._tree.nothing
            if parser == "nothing"
            else self._tree.opener(parser, workload)
        )

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """One sample of a cell."""
        from bench import measure
        from bench.workloads import STREAMS, steps_of

        cell, parser = job["cell"], job["parser"]
        workload, ids, texts = self.cut(cell["workload"], cell["tokens"])
        steps = steps_of(texts, ids, cell["width"])
        streams = STREAMS if cell["workload"].startswith("streams") else 1
        gc.collect()
        gc.freeze()
        if cell["path"].startswith(("serving", "responses")):
            if self._serving is None:
                from bench.serving import Serving

                self._serving = Serving(self._folder)
            sample = self._serving.run(
                cell, parser, workload, steps, streams, job["budget"]
            )
        else:
            sample = measure.run(
                cell["path"],
                self.opener(parser, workload),
                workload,
                steps,
                streams,
                job["budget"],
            )
        return {"tokens": len(ids) * streams, "steps": len(steps) * streams, **sample}


def main() -> None:
    """Command line."""
    options = argparse.ArgumentParser(prog="bench.worker")
    options.add_argument("--peer")
    options.add_argument("--folder", type=Path)
    chosen = options.parse_args()
    # Whatever is printed must not mix with the samples.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    bench = Bench(chosen.peer, chosen.folder)
    out.write(json.dumps({"ready": True}) + "\n")
    out.flush()
    for line in sys.stdin:
        try:
            sample = bench.run(json.loads(line))
        except Exception as error:  # the code under test may raise anything
            sample = {"error": f"{type(error).__name__}: {error}"[:500]}
        out.write(json.dumps(sample) + "\n")
        out.flush()
    os._exit(0)  # a release leaves threads that would keep the process


if __name__ == "__main__":
    main()
