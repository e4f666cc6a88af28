# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas-parser: serving can ask every parser for a step's deltas
(D2, D10).
"""

import pytest

from harness import TOOLS, ids, wrapped_tokenizer


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_every_parser_gives_deltas(name: str) -> None:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
    )
    from vllm.parser.parser_manager import ParserManager

    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "go"}], tools=TOOLS
    )
    kind = ParserManager.get_parser(name, None, True)
    parser = kind(wrapped_tokenizer(), request.tools)
    parse_deltas = getattr(parser, "parse_deltas", None)
    assert parse_deltas is not None
    deltas = parse_deltas("Fine.", ids("Fine."), request, [], finished=True)
    assert [delta.content for delta in deltas] == ["Fine."]
