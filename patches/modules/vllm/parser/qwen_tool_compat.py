# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Names that the Qwen parser uses and that stand elsewhere before v0.32.0."""

from __future__ import annotations

from typing import Any

from vllm.tool_parsers import utils

try:
    from vllm.entrypoints.generate.base.protocol import (
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
        FunctionCall,
    )
except ImportError:
    from vllm.entrypoints.openai.engine.protocol import (  # type: ignore[no-redef]
        DeltaFunctionCall,
        DeltaMessage,
        DeltaToolCall,
        FunctionCall,
    )

try:
    from vllm.renderers.chat_utils import make_tool_call_id
except ImportError:
    from vllm.entrypoints.chat_utils import (  # type: ignore[no-redef]
        make_tool_call_id,
    )


def _iter_function_info(tool: Any) -> list[tuple[str, dict[str, Any] | None]]:
    """Name and parameter schema of a tool of ``/v1/responses``."""
    return [(tool.name, tool.parameters)] if hasattr(tool, "parameters") else []


iter_response_function_tool_info = getattr(
    utils, "iter_response_function_tool_info", _iter_function_info
)

__all__ = [
    "DeltaFunctionCall",
    "DeltaMessage",
    "DeltaToolCall",
    "FunctionCall",
    "iter_response_function_tool_info",
    "make_tool_call_id",
]
