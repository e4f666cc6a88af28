# SPDX-License-Identifier: Apache-2.0
"""A stream that the reader reads makes no engine for tool calls beside it."""

from typing import Any
from unittest.mock import create_autospec

import pytest

from harness import TOOLS, body_of, call, ids, script, wrapped_tokenizer


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Count the engines that are made."""
    from vllm.parser.engine.parser_engine import ParserEngine

    init: Any = ParserEngine.__init__
    counting = create_autospec(init, side_effect=init)
    monkeypatch.setattr(ParserEngine, "__init__", counting)
    return counting


def opened(reasoning: str | None) -> tuple[Any, Any]:
    """The parser of a stream, and the request."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    request = ChatCompletionRequest(**body_of("chat", "none", True, TOOLS))
    parser_cls: Any = ParserManager.get_parser("qwen3_coder", reasoning, True)
    return parser_cls(wrapped_tokenizer(), request.tools), request


@pytest.mark.parametrize(("reasoning", "engines"), [(None, 0), ("qwen3", 1)])
def test_a_stream_makes_no_engine_for_its_tools(
    made: Any, reasoning: str | None, engines: int
) -> None:
    parser, request = opened(reasoning)
    text = ("Hm.</think>" if reasoning else "") + call("read", ("path", "/a"))
    parse = getattr(parser, "parse_deltas", parser.parse_delta)
    for piece, burst in script(text, 3).bursts:
        parse(piece, list(burst), request, ids("<think>\n"), finished=False)
    assert made.call_count == engines


def test_a_request_is_still_adjusted(made: Any) -> None:
    parser, request = opened(None)
    assert parser.adjust_request(request).skip_special_tokens is False
    assert made.call_count == 1
