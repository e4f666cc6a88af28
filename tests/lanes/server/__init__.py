# SPDX-License-Identifier: Apache-2.0
"""The server lane: a real server, a model with MTP, stock beside patched; a receipt.

``build`` makes one file of most of this package, which runs on a host that has the
official image or a Python with vLLM, and nothing of this project.
"""

from pathlib import Path


def build_dir() -> Path:
    """Return what the lane makes: environments, and the logs of servers."""
    # The receipt's file runs where this is not installed.
    from patchset import paths

    return paths.build_dir() / "server"
