# SPDX-License-Identifier: Apache-2.0
"""Outputs that are kept in files: those of real models, retold, and the fixtures of
the package ``canitoolcall``.
"""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.case import Case, parse, read

FIXTURES = "_data/fixtures/qwen3-xml"
#: What the prompt ends with, and the start that has it.
STARTS = {
    "<|im_start|>assistant\n<think>\n": "open",
    "<|im_start|>assistant\n<think>\n\n</think>\n\n": "closed",
    "<|im_start|>assistant\n": "plain",
}


def real_outputs() -> Iterator[Case]:
    """Yield outputs of real models that public threads report, in other words."""
    for case in read(Path(__file__).with_name("real-outputs.json")):
        yield case.model_copy(update={"name": case.name.partition("/")[2]})


def canitoolcall() -> Iterator[Case]:
    """Yield its outputs, with the message that it expects; none if it is missing."""
    found = importlib.util.find_spec("canitoolcall")
    if found is None or found.origin is None:
        return
    for path in sorted((Path(found.origin).parent / FIXTURES).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield _case(json.loads(line))


def _case(fixture: dict[str, Any]) -> Case:
    want = fixture.get("expected")
    cut = "truncated" in fixture["tags"]
    calls = want["tool_calls"] if want else []
    finish = "length" if cut else "tool_calls" if calls else "stop"
    document = {
        "description": f"canitoolcall, {fixture['id']}",
        "source": "canitoolcall",
        # An error that is expected has no reading.
        "class": "must" if want else "implementation-defined",
        "tools": [
            {"name": one["name"], "parameters": one.get("parameters") or {}}
            for one in (tool["function"] for tool in fixture["tools"])
        ],
        "starts": [STARTS[fixture["generation_prompt"]]],
        "output": fixture["raw_output"],
        "end": "length" if cut else "stop",
        "expected": {
            "reasoning": (want and want["reasoning_content"]) or "",
            "content": (want and want["content"]) or "",
            "calls": calls,
            "loose": True,
            "finish_reason": finish,
        },
    }
    return parse(document, fixture["id"].partition("/")[2])
