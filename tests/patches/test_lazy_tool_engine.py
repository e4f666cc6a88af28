# SPDX-License-Identifier: Apache-2.0
"""A stream that the reader reads makes no engine for tool calls beside it."""

from typing import Any
from unittest.mock import create_autospec

import pytest

from harness import call, ids, parser_of, script


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Count the engines that are made."""
    from vllm.parser.engine.parser_engine import ParserEngine

    init: Any = ParserEngine.__init__
    counting = create_autospec(init, side_effect=init)
    monkeypatch.setattr(ParserEngine, "__init__", counting)
    return counting


@pytest.mark.parametrize(("reasoning", "engines"), [(None, 0), ("qwen3", 1)])
def test_a_stream_makes_no_engine_for_its_tools(
    made: Any, reasoning: str | None, engines: int
) -> None:
    parser, request = parser_of("qwen3_coder", reasoning, stream=True)
    text = ("Hm.</think>" if reasoning else "") + call("read", ("path", "/a"))
    parse = getattr(parser, "parse_deltas", parser.parse_delta)
    for piece, burst in script(text, 3).bursts:
        parse(piece, list(burst), request, ids("<think>\n"), finished=False)
    assert made.call_count == engines


def test_a_request_is_still_adjusted(made: Any) -> None:
    parser, request = parser_of("qwen3_coder", stream=True)
    assert parser.adjust_request(request).skip_special_tokens is False
    assert made.call_count == 1
