# SPDX-License-Identifier: Apache-2.0
"""The history lane: what clients send back, and whose doing a difference is."""

import json
from pathlib import Path
from typing import Any

import pytest

import results
from history import BLOCKS, LANE, SUITE_VERSION, SURFACES, table
from history.clients import CLIENTS, QUESTION, again
from history.worker import what
from patchset import release

ARGUMENTS = {"size": 1.0, "list": [2.0, True, 2.5]}
TEXT = json.dumps(ARGUMENTS)
FUNCTION = {"name": "draw", "arguments": TEXT}
CALL = {"id": "c", "type": "function", "function": FUNCTION}
MESSAGE = {"content": None, "reasoning": "Hm.", "tool_calls": [CALL]}
ITEM = {"type": "function_call", "call_id": "c", "name": "draw", "arguments": TEXT}
USE = {"type": "tool_use", "id": "c", "name": "draw", "input": ARGUMENTS}
#: By surface: a reply with a call, and one with an answer.
REPLIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chat": (
        {"choices": [{"message": MESSAGE}]},
        {"choices": [{"message": {"content": "No."}}]},
    ),
    "responses": (
        {"output": [{**ITEM, "status": None}]},
        {"output": [{"type": "message", "content": []}]},
    ),
    "messages": (
        {"content": [USE]},
        {"content": [{"type": "text", "text": "No."}]},
    ),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_call_comes_back_with_its_clients_numbers(surface: str) -> None:
    body: dict[str, Any] = {"messages": [QUESTION], "input": [QUESTION]}
    field = "input" if surface == "responses" else "messages"
    shown = {
        client: json.dumps(again(surface, body, REPLIES[surface][0], client)[field])
        for client in CLIENTS
    }
    assert "1.0" in shown["Python"] and "2.5" in shown["Python"]
    assert "1.0" not in shown["JavaScript"] and "2.5" in shown["JavaScript"]
    assert "true" in shown["JavaScript"] and "null" not in shown["JavaScript"]
    assert ("reasoning_content" in shown["JavaScript"]) == (surface == "chat")
    # Its result follows, in place of another question.
    assert shown["Python"].count("And now?") == 1 and '"done"' in shown["Python"]
    assert body[field] == [QUESTION]


@pytest.mark.parametrize("surface", SURFACES)
def test_another_question_follows_an_answer(surface: str) -> None:
    body: dict[str, Any] = {"messages": [], "input": []}
    follows = again(surface, body, REPLIES[surface][1], "Python")
    field = "input" if surface == "responses" else "messages"
    assert follows[field][-1] == QUESTION


PROMPT = "<|im_start|>assistant\n<think>\n"
SAID = "Hm.\n</think>\n\nSo.\n\n<tool_call>\n<function=f>\n<parameter=a>\n1.0\n"
VALUE = "</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        ("<|im_start|>assistant\nSo.", "an earlier thought is left out"),
        (PROMPT + "\n</think>\n\nSo.", "a thought"),
        (PROMPT + SAID.replace("So.", "No."), "text"),
        (PROMPT + SAID.replace("So.\n\n", "So.\n"), "white space"),
        (PROMPT + SAID.replace("1.0", "1"), "a value"),
        (PROMPT + SAID.replace("=f>", "=g>"), "a call's tags or order"),
    ],
)
def test_a_difference_is_named_by_where_it_begins(shown: str, is_shown: str) -> None:
    assert what(PROMPT, PROMPT + SAID + VALUE, shown) == is_shown


def test_the_table_has_templates_and_causes(rows: Path) -> None:
    session = {"prompts": 1000, "lost": {str(block): [10, 20] for block in BLOCKS}}
    cell = {"replies": 9, "causes": {"server: text": 2}, "session": session}
    figures = {f"Qwen/{surface}": dict.fromkeys(CLIENTS, cell) for surface in SURFACES}
    for kind in results.KINDS:
        results.keep(LANE, SUITE_VERSION, "v0.33.0", kind, {"replies": figures})
    text = table.table([release.load("v0.33.0")])
    assert "| Qwen, Python | 2/9 → 2/9 |" in text
    assert "| 1.00% + 2.0% → 1.00% + 2.0% |" in text
    assert "| server: text | 6 → 6 |" in text
