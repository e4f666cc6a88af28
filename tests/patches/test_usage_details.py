# SPDX-License-Identifier: Apache-2.0
"""Proof of usage-details: the usage of a response holds numbers alone."""

import json
from typing import Any

import pytest

from application import application


@pytest.mark.parametrize("stream", [False, True])
def test_the_usage_holds_numbers_alone(stream: bool) -> None:
    asked: Any = ("/v1/responses", {"input": "Hello"})
    ask = application()
    response = ask.events(*asked)[-1]["response"] if stream else ask.json(*asked)
    for name in ("input_tokens_details", "output_tokens_details"):
        details = response["usage"][name]
        assert details, name
        assert all(isinstance(value, int) for value in details.values()), details


def test_a_list_that_holds_something_stays() -> None:
    from vllm.entrypoints.openai.responses import protocol

    details = protocol.OutputTokensDetails(output_tokens_per_turn=[3])
    dumped = json.loads(details.model_dump_json())
    assert dumped["output_tokens_per_turn"] == [3]
    assert "tool_output_tokens_per_turn" not in dumped
