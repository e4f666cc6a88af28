# SPDX-License-Identifier: Apache-2.0
"""Tests of our own modules inside a patched tree, which ``VLLM_TREE`` names; they
have no stock side.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

#: What a test file needs in the tree; without it the file says nothing about this
#: release.
NEEDS = {
    "test_qwen_delegating_parser.py": "vllm/parser/qwen_delegating_parser.py",
    "test_delta_sequence.py": "vllm/parser/delta_sequence.py",
    "test_item_events.py": "vllm/entrypoints/openai/responses/item_events.py",
    "test_required_calls.py": "vllm/parser/constrained_calls.py",
}


def pytest_configure(config: pytest.Config) -> None:
    """Put the tree before an installed vLLM."""
    tree = os.environ.get("VLLM_TREE")
    if not tree or not Path(tree, "vllm").is_dir():
        raise pytest.UsageError(
            "VLLM_TREE must name a patched tree; nox -s proofs sets it"
        )
    sys.path.insert(0, tree)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what is for other releases."""
    needed = NEEDS.get(collection_path.name)
    return (
        True if needed and not Path(os.environ["VLLM_TREE"], needed).is_file() else None
    )
