# SPDX-License-Identifier: Apache-2.0
"""``keeper.py PARENT SECONDS PROGRAM…``: run a program that ends with its parent.

It leads the program's process group, has the kernel tell it when its parent dies, even
by SIGKILL, and then ends the whole group: with SIGTERM, and after so many seconds, or
once the program itself has ended, with SIGKILL. Its status is the program's.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from typing import Any

#: Of prctl(2).
_PR_SET_PDEATHSIG = 1


class Orphaned(BaseException):
    """The parent has died."""


def orphaned(*_: Any) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # once
    raise Orphaned


def main(parent: int, seconds: float, *program: str) -> int:
    # The group gets these too, and the program decides what they mean.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGUSR1, orphaned)
    refused = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)
    if refused or os.getppid() != parent:  # it died before it could be watched
        return 1
    child = None
    try:
        child = subprocess.Popen(program)
        status = child.wait()
    except Orphaned:
        os.killpg(0, signal.SIGTERM)
        if child:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
        os.killpg(0, signal.SIGKILL)
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
