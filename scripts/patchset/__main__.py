# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m patchset`` and of the program ``patchset``."""

from __future__ import annotations

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """The command line. Until its modules are imported there is nothing to clear away on an interruption."""
    signal.signal(signal.SIGINT, _leave)
    from patchset.commands.cli import main as run

    run()


if __name__ == "__main__":
    main()
