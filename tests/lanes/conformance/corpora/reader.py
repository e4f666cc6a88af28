# SPDX-License-Identifier: Apache-2.0
"""Reads outputs with a reader's module alone, without vLLM around it."""

import importlib.util
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.corpora.case import Case, required


@dataclass
class Value:
    """A value as it was read, and whether it was closed.

    A server's is typed by the schema.
    """

    key: str
    text: Any = ""
    closed: bool = False


@dataclass
class ReadCall:
    """A call as it was read.

    Attributes:
        whole: Whether it was ended, and not by the output's end.
        open_text: From a server, the JSON text of one that is not whole.

    """

    name: str
    values: list[Value] = field(default_factory=list)
    whole: bool = False
    open_text: str | None = None

    def final(self) -> dict[str, Any]:
        """The values, the last of each key."""
        return {value.key: value.text for value in self.values}


@dataclass
class Reading:
    """What was read from an output."""

    calls: list[ReadCall] = field(default_factory=list)
    content: str = ""
    reasoning: str = ""
    broken: str = ""


class Reader:
    """A module that reads outputs, loaded from its file."""

    def __init__(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location("corpora_reader", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is no Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        self._make = module.QwenToolReader

    def events(self, case: Case, pieces: Iterable[str]) -> list[tuple[str, str]]:
        """The events of an output, those that continue one another joined."""
        tools = case.tools
        reader = self._make(
            tuple(tools),
            lambda name: tuple(tools[name]["properties"]) if name in tools else (),
            reasoning=case.in_reasoning,
            required_of=lambda name: required(tools, name),
        )
        joined: list[tuple[str, str]] = []

        def add(events: Iterable[tuple[Any, str]]) -> None:
            for kind, text in events:
                if not text and kind.name in _TEXTS:
                    continue
                if joined and kind.name in _TEXTS and joined[-1][0] == kind.name:
                    joined[-1] = (kind.name, joined[-1][1] + text)
                else:
                    joined.append((kind.name, text))

        for piece in pieces:
            add(reader.feed(piece))
        add(reader.finish(cut=case.cut))
        return joined


_TEXTS = ("REASONING", "CONTENT", "VALUE")


def reading(events: Sequence[tuple[str, str]]) -> Reading:
    """What a list of events says."""
    read = Reading()
    for kind, text in events:
        calls = read.calls
        if kind == "REASONING":
            read.reasoning += text
        elif kind == "CONTENT":
            read.content += text
        elif kind == "CALL":
            calls.append(ReadCall(text))
        elif kind == "PARAMETER":
            calls[-1].values.append(Value(text))
        elif kind == "VALUE":
            calls[-1].values[-1].text += text
        elif kind == "VALUE_END":
            calls[-1].values[-1].closed = True
        elif kind == "CALL_END":
            calls[-1].whole = True
        elif kind not in ("CALL_CUT", "REASONING_END"):
            read.broken = f"unknown event {kind}"
    return read


def random_pieces(text: str, rng: random.Random) -> list[str]:
    """A text in random pieces, of which some are single characters."""
    pieces, at = [], 0
    longest = rng.choice((1, 2, 4, 8, 30, 200))
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces
