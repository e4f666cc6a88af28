# SPDX-License-Identifier: Apache-2.0
"""Proof of linear-streaming: no step of a chat stream copies the tokens of the steps
before it (E3).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness import application, call, raw, script


class CountedIds(list[int]):
    """Token ids that count what is added to them or they are added to."""

    copies = 0

    # The override leaves out the list of anything else.
    def __add__(self, other: Any) -> CountedIds:  # type: ignore[override]
        CountedIds.copies += 1
        return CountedIds(list(self) + list(other))

    def __radd__(self, other: Any) -> CountedIds:
        CountedIds.copies += 1
        return CountedIds(list(other) + list(self))


def test_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = application("none", "qwen3_coder").state.engine_client
    generate = engine.generate

    async def counted(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        async for step in generate(*arguments, **options):
            (output,) = step.outputs
            output.token_ids = CountedIds(output.token_ids)
            yield step

    monkeypatch.setattr(engine, "generate", counted)
    output = call("write", ("content", "some text\n" * 60))
    assert len(script(output, 4).bursts) > 20
    CountedIds.copies = 0
    status, answer = raw(output, 4)
    assert status == 200
    assert b'"arguments"' in answer
    assert CountedIds.copies <= 1
