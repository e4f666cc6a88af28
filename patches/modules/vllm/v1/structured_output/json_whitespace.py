# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""How much white space a grammar lets a model write between two tokens of JSON.

Without a bound a model can write white space until its last token, and some do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

#: In characters: a line break and an indentation of 63 levels by four spaces, or of
#: 255 by tabs.
MAX_WHITESPACE = 256


def whitespace_bound(make: Callable[..., Any]) -> dict[str, int]:
    """The bound as ``make``'s argument; nothing if this xgrammar knows it not."""
    name = "max_whitespace_cnt"
    return {name: MAX_WHITESPACE} if name in inspect.signature(make).parameters else {}
