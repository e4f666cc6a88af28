# SPDX-License-Identifier: Apache-2.0
"""What a client has of a parser's deltas, whoever made them."""

from __future__ import annotations

import json
from typing import Any

from bench.workloads import Workload


class Message:
    """Adds up deltas of a vLLM release (``DeltaMessage``) or of another engine."""

    def __init__(self) -> None:
        self.reasoning = ""
        self.content = ""
        self.calls: list[list[str]] = []

    def add(self, delta: Any) -> None:
        """Add one delta; ``None`` adds nothing."""
        if delta is None:
            return
        if isinstance(delta, tuple):  # LMDeploy says beside each whether it has calls
            delta = delta[0]
        if hasattr(delta, "normal_text"):
            self.content += delta.normal_text
            for call in delta.calls:
                self._call(call.tool_index, call.name, call.parameters)
            return
        self.reasoning += (
            getattr(delta, "reasoning", None)
            or getattr(delta, "reasoning_content", None)
            or ""
        )
        self.content += delta.content or ""
        for call in delta.tool_calls or ():
            self._call(
                call.index,
                call.function and call.function.name,
                call.function and call.function.arguments,
            )

    def _call(self, index: int, name: str | None, arguments: str | None) -> None:
        while len(self.calls) <= index:
            self.calls.append(["", ""])
        self.calls[index][0] += name or ""
        self.calls[index][1] += arguments or ""

    def has_value(self, workload: Workload) -> bool:
        """Whether any of the workload's longest value has arrived."""
        value = max(
            (v for _, arguments in workload.calls for _, v in arguments), key=len
        )
        return any(
            value[:1] in arguments.partition('"content": "')[2]
            for _, arguments in self.calls
        )

    def right(self, workload: Workload) -> bool:
        """Whether it is what the workload's output says. White space around the text does not count."""
        try:
            calls = [(name, json.loads(arguments)) for name, arguments in self.calls]
        except ValueError:
            return False
        return (
            calls == [(name, dict(arguments)) for name, arguments in workload.calls]
            and self.content.strip() == workload.content.strip()
            and self.reasoning.strip() == workload.reasoning.strip()
        )
