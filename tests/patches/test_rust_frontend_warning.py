# SPDX-License-Identifier: Apache-2.0
"""Whoever starts the Rust frontend is told that it reads calls by itself."""

from __future__ import annotations

import argparse
import socket
from unittest import mock

import pytest
from vllm.utils.network_utils import ZmqListener
from vllm.v1 import utils


def warnings(tool_call_parser: str | None) -> list[str]:
    """What the frontend's launcher warns of; /bin/true is the frontend."""
    requests, answers = (ZmqListener("tcp://127.0.0.1:0", socket.socket()) for _ in range(2))
    arguments = argparse.Namespace(model="m", tool_call_parser=tool_call_parser)
    with (
        socket.socket() as listening,
        mock.patch("vllm.entrypoints.common.startup.jsonify_non_default_args", return_value={}),
        mock.patch.object(utils.logger, "warning") as warn,
    ):
        manager = utils.RustFrontendProcessManager(
            "/bin/true", listening, arguments, requests, answers, 0, 1, 1
        )
        manager.shutdown()
    return [call.args[0] % call.args[1:] for call in warn.call_args_list]


@pytest.mark.parametrize("name", ["qwen3_coder", "qwen3_xml"])
def test_warned(name: str) -> None:
    found = warnings(name)
    assert [name in text and "VLLM_USE_RUST_FRONTEND=0" in text for text in found] == [True]


@pytest.mark.parametrize("name", [None, "hermes", "qwen3_coder_stock"])
def test_not_warned(name: str | None) -> None:
    assert warnings(name) == []
