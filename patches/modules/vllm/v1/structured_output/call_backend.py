# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""What becomes of a grammar of calls that no backend but xgrammar takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.exceptions import VLLMValidationError
from vllm.logger import init_logger

if TYPE_CHECKING:
    from vllm.sampling_params import SamplingParams

logger = init_logger(__name__)

# How the tags of qwen_structural_tag.py begin as JSON: of auto, whose triggers have a
# tool's name, of a required call, and of one beside response_format.
_TAG = '{"type": "structural_tag", "format": {"type": '
_AUTO = _TAG + '"triggered_tags", "triggers": ["<tool_call>\\n<function='
_FIRST = '"sequence", "elements": [{"type": "regex", "pattern": "[ \\\\t\\\\n]{0,16}('
_REQUIRED = (_TAG + _FIRST, _TAG + '"or", "elements": [{"type": ' + _FIRST)


def leaves_out_calls(params: SamplingParams, backend: str) -> bool:
    """Whether a request goes without its grammar, which the backend does not take.

    Args:
        params: The request's; lose their grammar if so.
        backend: The server's; "auto" where xgrammar has refused the grammar.

    Raises:
        VLLMValidationError: the request requires a call.

    """
    outputs = params.structured_outputs
    tag = (outputs.structural_tag if outputs is not None else None) or ""
    if tag.startswith(_AUTO) and not tag.startswith(_AUTO + '"'):
        logger.warning_once(
            "Calls of strict tools are not constrained where xgrammar does not take "
            "their schemas, or is not the structured output backend."
        )
        params.structured_outputs = None
        return True
    if not tag.startswith(_REQUIRED):
        return False
    if backend == "auto":
        raise VLLMValidationError(
            "xgrammar does not take the schema of a strict tool. Change the schema, or "
            "leave out `strict`."
        )
    raise VLLMValidationError(
        "`tool_choice` with a required call needs the structured output backend "
        f"xgrammar, and this server has {backend}. Start it with "
        "--structured-outputs-config.backend xgrammar, or ask with "
        '`tool_choice: "auto"`.'
    )
