# SPDX-License-Identifier: Apache-2.0
"""Proof of messages-blocks: a block of ``/v1/messages`` holds its own text alone,
and all of it (E8).
"""

import pytest

from harness import MIXED, MIXED_READ, THINKING, WIDTHS, answer


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_messages(width: int | None) -> None:
    assert answer(MIXED, width, surface="messages", **THINKING) == MIXED_READ
