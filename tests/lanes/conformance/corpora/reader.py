# SPDX-License-Identifier: Apache-2.0
"""Reads outputs with a reader's module alone, without vLLM around it."""

import importlib.util
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.case import Case
from conformance.reading import ReadCall, Reading

Events = list[tuple[str, str]]

_TYPED = ("integer", "number", "boolean", "array", "object")
_TEXTS = ("REASONING", "CONTENT", "VALUE")


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

    def events(self, case: Case, pieces: Iterable[str]) -> Events:
        """The events of an output, those that continue one another joined."""
        schemas = {tool.name: tool.parameters for tool in case.tools}
        reader = self._make(
            tuple(schemas),
            lambda name: tuple(schemas.get(name, {}).get("properties", ())),
            reasoning="open" in case.starts,
            required_of=lambda name: _required(schemas.get(name, {})),
        )
        joined: Events = []

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
        add(reader.finish(cut=case.end == "length"))
        return joined


def _required(schema: dict[str, Any]) -> list[str]:
    """The required keys of a tool that admit no null."""
    properties = schema.get("properties", {})
    return [
        key
        for key in schema.get("required", ())
        if "null" not in _types(properties.get(key, {}))
    ]


def _types(schema: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for branch in schema.get("anyOf", [schema]):
        kind = branch.get("type", ())
        found |= {kind} if isinstance(kind, str) else set(kind)
    return found


def reading(events: Events, case: Case) -> Reading:
    """What a client would read of a list of events.

    Values are typed by the schema as far as they are JSON.
    """
    read = Reading()
    calls: list[tuple[str, list[list[Any]], bool]] = []
    for kind, text in events:
        if kind == "REASONING":
            read.reasoning += text
        elif kind == "CONTENT":
            read.content += text
        elif kind == "CALL":
            calls.append((text, [], False))
        elif kind == "PARAMETER":
            calls[-1][1].append([text, "", False])
        elif kind == "VALUE":
            calls[-1][1][-1][1] += text
        elif kind == "VALUE_END":
            calls[-1][1][-1][2] = True
        elif kind == "CALL_END":
            calls[-1] = (*calls[-1][:2], True)
        elif kind not in ("CALL_CUT", "REASONING_END"):
            read.fails("event", f"unknown: {kind}")
    tools = {tool.name: tool.parameters.get("properties", {}) for tool in case.tools}
    for at, (name, values, whole) in enumerate(calls):
        kinds = tools.get(name, {})
        found = {}
        open_ = "" if whole else "}"
        for key, text, closed in values:
            kind = kinds.get(key, {}).get("type")
            if closed or whole:
                found[key] = _typed(text, kind)
            elif kind not in _TYPED:  # a string stays open, another is left out
                found[key] = text
                open_ = '"}'
        text = json.dumps(found, ensure_ascii=False).removesuffix(open_)
        read.calls.append(ReadCall(name, str(at), text))
    whole = bool(calls) and calls[-1][2]
    read.finish = "tool_calls" if whole else "stop"
    if case.end == "length":
        read.finish = "length"
    read.close()
    return read


def _typed(text: str, kind: Any) -> Any:
    if kind not in _TYPED:
        return text
    try:
        return json.loads(text.lower() if kind == "boolean" else text)
    except ValueError:
        return text


def random_pieces(text: str, rng: random.Random) -> list[str]:
    """A text in random pieces, of which some are single characters."""
    pieces, at = [], 0
    longest = rng.choice((1, 2, 4, 8, 30, 200))
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces
