# SPDX-License-Identifier: Apache-2.0
"""Proof of ordered-deltas-parser: serving can ask every parser for a step's deltas
(D2, D10).
"""

import pytest

from harness import ids, parser_of


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_every_parser_gives_deltas(name: str) -> None:
    parser, request = parser_of(name)
    parse_deltas = getattr(parser, "parse_deltas", None)
    assert parse_deltas is not None
    deltas = parse_deltas("Fine.", ids("Fine."), request, [], finished=True)
    assert [delta.content for delta in deltas] == ["Fine."]
