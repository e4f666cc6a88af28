# SPDX-License-Identifier: Apache-2.0
"""The cpu lane: a real vLLM server, a real Qwen3.5-architecture model with MTP, the clients that people use."""

from pathlib import Path


def build_dir() -> Path:
    """What the lane makes: environment, checkpoints, wheels, logs, results."""
    from patchset.base import paths  # the checkpoint maker runs where patchset is not installed

    return paths.build_dir() / "e2e"
