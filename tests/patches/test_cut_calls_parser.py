# SPDX-License-Identifier: Apache-2.0
"""Proof of cut-calls-parser: every parser can be told why an output ended, and asked
whether its last call is cut (E10).
"""

import pytest

from harness import parser_of


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_every_parser_answers(name: str) -> None:
    parser, request = parser_of(name)
    tell = getattr(parser, "set_finish_reason", None)
    assert tell is not None
    tell("length", None)
    assert parser.parse("Fine.", request)[1] == "Fine."
    assert parser.last_call_is_cut is False
