# SPDX-License-Identifier: Apache-2.0
"""The cpu lane: a real vLLM server, a real Qwen3.5-architecture model with MTP, every answer known."""

import os
import signal
import sys
from pathlib import Path

#: Raised by hand when a verdict can change.
SUITE_VERSION = 2

# So while Python looks for the module of `python -m`: until that is imported there is nothing to clear away on Ctrl-C.
if sys.argv[:1] == ["-m"]:
    signal.signal(
        signal.SIGINT,
        lambda number, frame: os.write(2, b"interrupted\n") and os._exit(130),
    )


def build_dir() -> Path:
    """What the lane makes: environment, checkpoints, wheels, logs, results."""
    from patchset import (
        paths,  # the checkpoint maker runs where patchset is not installed
    )

    return paths.build_dir() / "cpu"
