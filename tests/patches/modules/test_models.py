# SPDX-License-Identifier: Apache-2.0
"""Deltas are made without validation where pydantic allows it, and nobody who uses them may tell."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from harness import call

DOCTORED = {
    "another slot": "BaseModel.__slots__ = (*BaseModel.__slots__, '__pydantic_other__')",
    "a slot less": "delattr(BaseModel, '__pydantic_private__')",
    "swapped slots": (
        "extra, private = vars(BaseModel)['__pydantic_extra__'], vars(BaseModel)['__pydantic_private__'];"
        "setattr(BaseModel, '__pydantic_extra__', private); setattr(BaseModel, '__pydantic_private__', extra)"
    ),
}

REPORT = """
import vllm.entrypoints.openai.chat_completion.serving
from pydantic import BaseModel
{doctor}
from vllm.parser import qwen_tool_deltas as module
delta = module._arguments_of(2)("x")
text = module._text_of("content")("y")
print("made", delta.tool_calls[0].index, delta.tool_calls[0].function.arguments, text.content)
print("fast", module._text_of.__qualname__.startswith("_fast_models"))
"""


def report(doctor: str) -> str:
    """What a process prints whose pydantic is doctored before our module is imported."""
    run = subprocess.run(
        [sys.executable, "-c", REPORT.format(doctor=doctor)],
        cwd=os.environ["VLLM_TREE"],
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return run.stdout


def test_fast_with_this_pydantic() -> None:
    assert report("").splitlines()[-2:] == ["made 2 x y", "fast True"]


@pytest.mark.parametrize("name", DOCTORED)
def test_a_pydantic_of_another_make_is_survived(name: str) -> None:
    assert "made 2 x y" in report(DOCTORED[name])


def test_deltas_are_like_validated_ones() -> None:
    """The deltas are made without validation; nobody who uses them may tell."""
    from vllm.parser import qwen_tool_deltas as module

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


def test_first_delta_of_a_call_has_arguments() -> None:
    """Some clients add to the arguments of the first delta, and fail on null."""
    from vllm.parser import qwen_tool_deltas as module

    stream = module.QwenDeltaStream({"write": {}}, lambda name: "id")
    deltas = stream.feed("<tool_call>\n<function=write>\n")
    assert [delta.tool_calls[0].function.arguments for delta in deltas] == [""]
