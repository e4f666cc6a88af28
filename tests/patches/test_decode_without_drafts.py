# SPDX-License-Identifier: Apache-2.0
"""A request that decodes without drafts is found by what its last step accepted."""

import pytest

from prefix_cache.runners import drafts_of_rows


@pytest.mark.parametrize("drafts", [[0, 3], [3, 0, 1], [0, 0]])
def test_a_row_without_drafts_counts(drafts: list[int]) -> None:
    """Stock: -1, which means that nothing was accepted."""
    assert drafts_of_rows(drafts) == drafts
