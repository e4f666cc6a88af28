# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""How much of the context a prompt leaves for the output."""

from __future__ import annotations


def room_for_output(asked: int | None, truncate: int | None, context: int) -> int:
    """How many tokens of the context are kept free for the output.

    None, as the tokens that a request asks for are an upper bound, which
    ``get_max_tokens`` cuts to what the prompt leaves. Only a prompt that is
    truncated leaves room for what was asked for.

    Args:
        asked: The request's bound of output tokens.
        truncate: Prompt tokens to keep; -1 for what the output leaves.
        context: Tokens of the model's context.

    """
    if asked is None or truncate is None:
        return 0
    return max(min(asked, context - max(truncate, 1)), 0)
