# SPDX-License-Identifier: Apache-2.0
"""Proof of usage-details: the usage of a response holds numbers alone."""

import json
from typing import Any

from application import application


def _numbers_alone(usage: dict[str, Any]) -> None:
    for name in ("input_tokens_details", "output_tokens_details"):
        assert usage[name], name
        assert all(isinstance(value, int) for value in usage[name].values()), usage[
            name
        ]


def test_not_streamed() -> None:
    _numbers_alone(application().json("/v1/responses", {"input": "Hello"})["usage"])


def test_streamed() -> None:
    events = application().events("/v1/responses", {"input": "Hello"})
    _numbers_alone(events[-1]["response"]["usage"])


def test_a_list_that_holds_something_stays() -> None:
    from vllm.entrypoints.openai.responses import protocol

    details = protocol.OutputTokensDetails(output_tokens_per_turn=[3])
    dumped = json.loads(details.model_dump_json())
    assert dumped["output_tokens_per_turn"] == [3]
    assert "tool_output_tokens_per_turn" not in dumped
