# SPDX-License-Identifier: Apache-2.0
"""Reads outputs with a reader's module alone, without vLLM around it."""

import importlib
import random
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance import check
from conformance.case import Case
from conformance.reading import ReadCall, Reading

_TEXTS = ("REASONING", "CONTENT", "VALUE")


def _module(file: Path) -> Any:
    """Import a module of a folder, and what it imports of those beside it."""
    package = types.ModuleType("corpora_modules")
    package.__path__ = [str(file.parent)]
    sys.modules[package.__name__] = package
    return importlib.import_module(f".{file.stem}", package.__name__)


class Reader:
    """A module that reads outputs, and the one beside it that writes arguments."""

    def __init__(self, file: Path) -> None:
        self._make = _module(file).QwenToolReader
        self._values = _module(file.with_name("qwen_tool_values.py"))

    def read(self, case: Case, pieces: Iterable[str]) -> tuple[Reading, list[str]]:
        """Yield what a client would read of an output in pieces, and the kinds of
        events in their order.
        """
        schemas = {tool.name: tool.parameters for tool in case.tools}
        tools = {name: self._values.ToolSchema(schemas[name]) for name in schemas}
        undeclared = self._values.ToolSchema(None)
        required = {"constrained": True} if case.tool_choice == "required" else {}
        reader = self._make(
            tuple(tools),
            lambda name: tools.get(name, undeclared).names,
            reasoning="open" in case.starts,
            required_of=lambda name: tools.get(name, undeclared).required,
            **required,
            takes_json=lambda name, key: tools[name].takes_json(key),
        )

        def events() -> Iterator[tuple[str, str]]:
            for piece in pieces:
                yield from reader.feed(piece)
            yield from reader.finish(cut=case.end == "length")

        read, order = Reading(), [""]
        writer: Any = None
        for kind, text in events():
            if text or kind not in _TEXTS:
                order += [kind] if kind != order[-1] or kind not in _TEXTS else []
            if kind == "REASONING":
                read.reasoning += text
            elif kind == "CONTENT":
                read.content += text
            elif kind == "CALL":
                writer = self._values.ArgumentsWriter(tools.get(text, undeclared))
                call = ReadCall(text, str(len(read.calls)), writer.begin())
                read.calls.append(call)
            elif writer is not None:
                call.text = f"{call.text}{_added(writer, kind, text)}"
        last = next((kind for kind in reversed(order) if kind.startswith("CALL_")), "")
        read.finish = "tool_calls" if last == "CALL_END" else "stop"
        if case.end == "length":
            read.finish = "length"
        return read.close(), order


def _added(writer: Any, kind: str, text: str) -> Any:
    """Return what an event within a call adds to the JSON text of its arguments."""
    return {
        "PARAMETER": lambda: writer.begin_parameter(text),
        "VALUE": lambda: writer.value(text),
        "VALUE_END": writer.end_value,
        "CALL_END": writer.end,
    }.get(kind, str)()


def alone(reader: Reader, cases: Iterable[Case], cuts: int) -> Iterator[dict[str, Any]]:
    """Yield the result of each case, as a tree's host gives it: of the output whole,
    and of ``cuts`` random cuts, which are wrong if they are read otherwise.
    """
    for case in cases:
        rng, wrong, differs = random.Random(f"0/{case.name}"), {}, False
        try:
            read = reader.read(case, [case.output])
            found = check.problems(read[0], case.run(case.starts[0]).expected)
            for cut in range(cuts):
                pieces = random_pieces(case.output, rng)
                if reader.read(case, pieces) != read:
                    wrong[f"split {cut}"] = [
                        "lost",
                        f"otherwise in the pieces {pieces}",
                    ]
        except Exception as error:  # the code under test may raise anything
            found = [("lost", f"{type(error).__name__}: {error}")]
        if case.class_ == "implementation-defined":
            differs, found = check.worst(found) not in ("", "form"), []
        ways = ["full", *(f"split {cut}" for cut in range(cuts))]
        for way in ways if found else ():
            wrong.setdefault(way, [check.worst(found), *(why for _, why in found)])
        result = {
            **{"case": case.name, "class": case.class_, "start": case.starts[0]},
            **{"surface": "reader", "reasoning": "none", "ordinary": case.ordinary},
            **{"right": [way for way in ways if way not in wrong], "wrong": wrong},
            **{"differs": differs, "sdk": {}, "streams": len(ways)},
        }
        yield {"name": case.name, "results": [result]}


def random_pieces(text: str, rng: random.Random) -> list[str]:
    """Return a text in random pieces, of which some are single characters."""
    pieces, at = [], 0
    longest = rng.choice((1, 2, 4, 8, 30, 200))
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces
