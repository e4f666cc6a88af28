# SPDX-License-Identifier: Apache-2.0
"""The gpu lane: the cpu lane's clients and checks against ``vllm serve`` on CUDA, and real weights."""

from pathlib import Path

import cpu  # noqa: F401 - for Ctrl-C while modules are imported


def build_dir() -> Path:
    """What the lane makes: results and logs."""
    from patchset import paths

    return paths.build_dir() / "gpu"
