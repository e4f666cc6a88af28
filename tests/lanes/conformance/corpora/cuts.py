# SPDX-License-Identifier: Apache-2.0
"""Outputs cut at every character: nothing that was cut may look whole."""

import itertools
from collections.abc import Iterator, Sequence

from conformance.case import Call, Case
from conformance.corpora import embeddings
from conformance.corpora import spelling as spellings
from conformance.corpora.case import make

CALLS = {
    "rm -rf": (Call("bash", {"command": "rm -rf data/tmp/cache-of-yesterday"}),),
    "rm -rf, described": (
        Call("bash", {"command": "rm -rf data/tmp/cache", "description": "Clean up"}),
    ),
    "a file": (
        Call(
            "write",
            {"file_path": "src/app.py", "content": "import os\n\n\ndef f():\n  pass\n"},
        ),
    ),
    "a file that quotes a call": (
        Call(
            "write",
            {
                "file_path": "a.md",
                "content": "A:\n" + embeddings.QUOTED.rendered() + "\nB",
            },
        ),
    ),
    "a file that quotes a call, indented": (
        Call(
            "write",
            {
                "file_path": "a.yaml",
                "content": embeddings.FIRST["YAML block"](embeddings.QUOTED),
            },
        ),
    ),
    "a number": (Call("read", {"file_path": "a.py", "offset": 20, "limit": 1200}),),
    "two calls": (
        Call("read", {"file_path": "a.py"}),
        Call("bash", {"command": "rm -rf out/old"}),
    ),
}
SPELLINGS = (
    spellings.CANONICAL,
    spellings.ONE_LINE,
    spellings.PRETTY,
    spellings.NO_END,
    spellings.BARE,
)
#: Behind every end.
MORE = 1_000_000


def _cuts(
    name: str, calls: tuple[Call, ...], spelling: spellings.Spelling, *, ended: bool
) -> Iterator[Case]:
    before = "I will do that.\n\n"
    texts = [spelling.write(call) for call in calls]
    output = before + "\n".join(texts)
    quoted = (embeddings.QUOTED,) if "quotes" in name else ()
    opened, frames, at = [], [], len(before)
    for call, text in zip(calls, texts, strict=True):
        opened.append(at + text.index(">", text.index("<parameter=")) + 1)
        frames.append([range(at + a, at + b) for a, b in _frame(call, text, ended)])
        at += len(text) + 1
    for at in range(len(before), len(output)):
        # A call behind it shows that a call has ended; a bare one is held to the end.
        possible = sum(place <= at for place in opened[1:])
        certain = 0 if spelling.bare() else possible
        while possible < len(calls) and any(at in r for r in frames[possible]):
            possible += 1
        yield make(
            name=f"{name} / {spelling.name} / {at}",
            output=output[:at],
            calls=calls,
            quoted=quoted,
            cut=not ended,
            ended=ended,
            whole=(certain, possible),
        )


def _frame(call: Call, text: str, ended: bool) -> Iterator[tuple[int, int]]:
    """Yield where a call may be cut and be whole all the same.

    That is behind its last tag, and where the model itself ends the output also
    behind the closing tag of any value.
    """
    at = 0
    if ended:
        for value in call.texts().values():
            value_end = text.index(value, at) + len(value)
            at = text.index(">", text.index("</parameter", value_end)) + 1
            following = text.find(">", text.find("<parameter=", at))
            yield at, following + 1 if following >= at else MORE
    yield len(text), MORE


def cut(ways: Sequence[spellings.Spelling], *, ended: bool) -> Iterator[Case]:
    """Yield all calls, cut by ``max_tokens`` or a stop string or ended by the model."""
    for (name, calls), way in itertools.product(CALLS.items(), ways):
        yield from _cuts(name, calls, way, ended=ended)
