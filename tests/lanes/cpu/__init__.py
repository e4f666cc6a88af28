# SPDX-License-Identifier: Apache-2.0
"""The cpu lane: a real server, a real model with MTP, every answer known."""

from pathlib import Path


def build_dir() -> Path:
    """What the lane makes: environment, model, logs."""
    # The model's maker and the receipt's file run where this is not installed.
    from patchset import paths

    return paths.build_dir() / "cpu"
