# SPDX-License-Identifier: Apache-2.0
"""A stream that the reader reads makes no engine for tool calls beside it."""

from __future__ import annotations

from typing import Any

import pytest

from harness import TOOLS, _parser, _request, call, streamed

CALL = call("read", ("path", "/a"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The engines that were made."""
    from vllm.parser.engine import parser_engine

    found: list[Any] = []
    init = parser_engine.ParserEngine.__init__

    def counting(self: Any, *arguments: Any, **options: Any) -> None:
        found.append(self)
        init(self, *arguments, **options)

    monkeypatch.setattr(parser_engine.ParserEngine, "__init__", counting)
    return found


@pytest.mark.parametrize(("reasoning", "engines"), [(False, 0), (True, 1)])
def test_a_stream_makes_no_engine_for_its_tools(
    made: list[Any], reasoning: bool, engines: int
) -> None:
    text = ("Hm.</think>" if reasoning else "") + CALL
    message = streamed(text, 3, reasoning=reasoning)
    assert message.arguments == [("read", {"path": "/a"})]
    assert len(made) == engines


def test_a_request_is_still_adjusted(made: list[Any]) -> None:
    request = _request(TOOLS, True)
    parser = _parser(request, False)
    adjusted = parser.adjust_request(request)
    assert adjusted.skip_special_tokens is False
    assert len(made) == 1
