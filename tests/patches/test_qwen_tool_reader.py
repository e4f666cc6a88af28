# SPDX-License-Identifier: Apache-2.0
"""Proof of qwen-tool-reader: events that do not depend on the cuts, at a cost linear in length."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any

import pytest
from harness import call

TOOLS = {"write": ("path", "content"), "read": ("path",)}


def events(pieces: Iterable[str], **options: Any) -> list[tuple[str, str]]:
    """Events of a text, neighbours of one kind joined."""
    from vllm.parser.qwen_tool_reader import QwenToolReader

    reader = QwenToolReader(TOOLS, **options)
    found: list[tuple[str, str]] = []
    for batch in [*map(reader.feed, pieces), reader.finish()]:
        for kind, text in batch:
            if text and found and found[-1][0] == kind.name:
                found[-1] = (kind.name, found[-1][1] + text)
            else:
                found.append((kind.name, text))
    return found


def test_reads_a_call() -> None:
    text = "Well.\n\n" + call("write", ("path", "/a"), ("content", "x\n"))
    assert events([text]) == [
        ("CONTENT", "Well."),
        ("CALL", "write"),
        ("PARAMETER", "path"),
        ("VALUE", "/a"),
        ("VALUE_END", ""),
        ("PARAMETER", "content"),
        ("VALUE", "x\n"),
        ("VALUE_END", ""),
        ("CALL_END", ""),
    ]


@pytest.mark.parametrize("reasoning", [False, True])
def test_every_two_way_cut(reasoning: bool) -> None:
    text = "Let me <think> of a <tool_call>.\n</think>\n\nSo:\n" * reasoning
    text += (
        "Two:\n" + call("write", ("content", "a < b\n\n")) + "\n" + call("read", ("path", "/x")) + "\ndone\n"
    )
    expected = events([text], reasoning=reasoning)
    assert [name for kind, name in expected if kind == "CALL"] == ["write", "read"]
    for cut in range(len(text) + 1):
        assert events([text[:cut], text[cut:]], reasoning=reasoning) == expected, cut
    assert events(text, reasoning=reasoning) == expected


def test_random_markup_and_cuts() -> None:
    tags = ["<tool_call>", "</tool_call>", "<function=write>", "<function=no>", "<function=", "</function>"]
    tags += ["<parameter=path>", "<parameter=q>", "<parameter=", "</parameter>", "<think>", "</think>"]
    tags += ["\n", "\n", "\n", " ", "a", "<", "</", ">", "</para", "<func", "é"]
    random_ = random.Random(20260901)
    for _ in range(1500):
        text = "".join(random_.choices(tags, k=random_.randint(1, 24)))
        if random_.random() < 0.6:
            text = "<tool_call>\n<function=write>\n<parameter=content>\n" + text
        options = {"reasoning": random_.random() < 0.4, "think_tags": random_.random() < 0.7}
        expected = events([text], **options)
        for longest in (1, 3, 9):
            pieces = []
            rest = text
            while rest:
                size = random_.randint(1, longest)
                pieces.append(rest[:size])
                rest = rest[size:]
            assert events(pieces, **options) == expected, (text, options, pieces)


def test_cost_is_linear() -> None:
    from vllm.parser.qwen_tool_reader import QwenToolReader

    def seconds(length: int) -> float:
        text = call("write", ("content", "some <b>text</b>\n" * (length // 17)))
        pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
        best = float("inf")
        for _ in range(3):
            reader = QwenToolReader(TOOLS)
            start = time.process_time()
            for piece in pieces:
                reader.feed(piece)
            best = min(best, time.process_time() - start)
        return best

    # Quadratic cost would be 256 times as much for 16 times the length.
    assert seconds(400_000) < 48 * seconds(25_000)


def test_deltas_are_like_validated_ones() -> None:
    """The deltas are made without validation; nobody who uses them may tell."""
    from vllm.parser import qwen_tool_parser as module

    stream = module.QwenDeltaStream({"write": {}}, lambda name: f"id-{name}", reasoning=True, think_tags=True)
    text = "Hm.</think>Well. " + call("write", ("path", "/a")) + call("write", ("path", "/b"))
    deltas = [delta for piece in text for delta in stream.feed(piece)] + stream.finish()
    kinds = set()
    for delta in deltas:
        given = delta.model_dump(exclude_unset=True)
        kinds.add((*given, *(key for made in given.get("tool_calls", ()) for key in made)))
        validated = type(delta).model_validate(given)
        assert validated == delta
        for dump in ("model_dump", "model_dump_json"):
            for options in ({}, {"exclude_unset": True}, {"exclude_none": True}):
                assert getattr(delta, dump)(**options) == getattr(validated, dump)(**options)
        for one, other in zip(_models(delta), _models(validated), strict=True):
            assert type(one) is type(other)
            assert one.model_fields_set == other.model_fields_set
            assert one.model_extra == other.model_extra
            assert one.__pydantic_private__ == other.__pydantic_private__
    assert kinds == {
        ("reasoning",),
        ("content",),
        ("tool_calls", "id", "type", "index", "function"),
        ("tool_calls", "index", "function"),
    }
    shared = [id(model) for delta in deltas for model in _models(delta)]
    assert len(shared) == len(set(shared))
    deltas[-1].tool_calls.append("changed")
    deltas[-1].role = "changed"
    assert "changed" not in deltas[-2].tool_calls
    assert "role" not in deltas[-2].model_fields_set


def _models(delta: Any) -> list[Any]:
    return [delta, *delta.tool_calls, *(made.function for made in delta.tool_calls)]
