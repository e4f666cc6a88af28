# SPDX-License-Identifier: Apache-2.0
"""A caller that takes one delta a step, as the derenderer does, gets one kind."""

import pytest

from harness import MIXED, ids, parser_of, wrapped_tokenizer


@pytest.mark.parametrize("width", [1, 2, 3, 5, 9])
def test_a_delta_is_of_one_kind(width: int) -> None:
    parser, request = parser_of("qwen3_coder", "qwen3")
    output = ids(MIXED)
    steps = [output[at : at + width] for at in range(0, len(output), width)]
    deltas = [
        parser.parse_delta(
            wrapped_tokenizer().decode(step), step, request, [], finished=False
        )
        for step in steps
    ]
    said = [delta for delta in deltas if delta is not None]
    assert any(delta.tool_calls for delta in said)
    for delta in said:
        kinds = (delta.reasoning, delta.content, delta.tool_calls)
        assert sum(map(bool, kinds)) == 1, delta
    said.append(parser.parse_delta("", [], request, [], finished=True))
    read = "".join(delta.content or "" for delta in said if delta)
    assert read.split() == ["First.", "Then."]
