# SPDX-License-Identifier: Apache-2.0
"""Proofs run against the vLLM tree that ``VLLM_TREE`` names, stock or patched."""

import os
import sys
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Put the tree before an installed vLLM, here and in the process in which vLLM
    looks at a model's class.
    """
    tree = os.environ.get("VLLM_TREE")
    if not tree or not Path(tree, "vllm").is_dir():
        raise pytest.UsageError(
            "VLLM_TREE must name a vLLM source tree; nox -s proofs sets it for "
            "each proof"
        )
    sys.path.insert(0, tree)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [tree, os.environ.get("PYTHONPATH")])
    )
