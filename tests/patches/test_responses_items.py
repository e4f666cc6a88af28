# SPDX-License-Identifier: Apache-2.0
"""Proof of responses-items: a stream of ``/v1/responses`` carries reasoning, text
and every call (E2, D2).
"""

import pytest

from harness import MIXED, MIXED_READ, THINKING, WIDTHS, answer


@pytest.mark.parametrize("width", [None, *WIDTHS])
def test_responses(width: int | None) -> None:
    assert answer(MIXED, width, surface="responses", **THINKING) == MIXED_READ
