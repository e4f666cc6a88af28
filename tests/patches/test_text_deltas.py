# SPDX-License-Identifier: Apache-2.0
"""Proof of text-deltas: the parser makes few models for a stream, and its bytes are
those of one that makes a model of each delta.
"""

from typing import Any

import pytest

from chunks import differences, times_called
from conformance.host.engine import use_cpu_platform

USAGE = {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize("surface", ["chat", "responses"])
def test_few_models(monkeypatch: pytest.MonkeyPatch, surface: str) -> None:
    use_cpu_platform()  # before serving is imported
    from vllm.entrypoints.openai.chat_completion import serving
    from vllm.parser import qwen_tool_deltas

    if surface == "chat" and not hasattr(serving, "TextChunks"):
        pytest.skip("chat makes a model of each chunk")
    # The last step's, and those of a step that holds several.
    made = times_called(monkeypatch, qwen_tool_deltas, "text_message", surface)
    assert 1 <= made < 20


@pytest.mark.parametrize(
    ("surface", "fields"),
    [
        ("chat", {}),
        ("chat", {"stream_options": USAGE}),
        ("chat", {"return_token_ids": True}),
        ("chat", {"include_reasoning": False}),
        ("chat", {"parallel_tool_calls": False}),
        ("chat", {"tool_choice": "none"}),
        ("messages", {}),
        ("responses", {}),
        ("responses", {"parallel_tool_calls": False}),
        ("responses", {"tool_choice": "none"}),
    ],
    ids=repr,
)
def test_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, surface: str, fields: dict[str, Any]
) -> None:
    from vllm.parser.qwen_tool_pairs import QwenParser

    opened = QwenParser._open

    def _open(self: Any, request: Any) -> Any:
        self.text_delta_cls = None
        return opened(self, request)

    assert differences(monkeypatch, QwenParser, _open, surface, **fields) == []
