# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-reasoning-parts: all that reasoning items say is in the prompt."""

from typing import Any

import pytest

from application import application

USER = {"role": "user", "content": "Do it."}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c",
    "name": "read",
    "arguments": "{}",
    "status": "completed",
}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "x"}


def _parts(kind: str, *texts: str) -> list[dict[str, str]]:
    return [{"type": kind, "text": text} for text in texts]


def _item(number: int, content: list[Any], summary: list[Any]) -> dict[str, Any]:
    name = f"rs_{number}"
    return {"type": "reasoning", "id": name, "content": content, "summary": summary}


def _history(*items: dict[str, Any]) -> str:
    body = {"input": [USER, *items, CALL, RESULT]}
    application().json("/v1/responses", body)
    return application().history


@pytest.mark.parametrize("texts", [("WHY",), ("WHY", "TWO"), ("WHY", "TWO", "LAST")])
def test_parts(texts: tuple[str, ...]) -> None:
    thought = "<think>\n{}\n</think>".format("\n".join(texts))
    content = _parts("reasoning_text", *texts)
    summary = _parts("summary_text", *texts)
    assert thought in _history(_item(1, content, []))
    assert thought in _history(_item(1, [], summary))
    other = _parts("summary_text", "SUMMARY")
    assert thought in _history(_item(1, content, other))


def test_items() -> None:
    one, two = (_parts("reasoning_text", text) for text in ("WHY", "TWO"))
    prompt = _history(_item(1, one, []), _item(2, two, []))
    call = prompt.index("<tool_call>\n<function=read>")
    assert prompt.index("WHY") < prompt.index("TWO") < call
    # Up to v0.21.0 each item has a turn of its own, the call too.
    turns = prompt.count("<|im_start|>assistant\n")
    assert turns == 3 or (turns == 1 and "<think>\nWHY\nTWO\n</think>" in prompt)
