"""Conformance suite for Qwen3-Coder tool calls: cases, schedules, adapters and the
checker.
"""

import os
import signal
import sys

#: Raised by hand when a verdict can change.
SUITE_VERSION = 3

# So while Python looks for the module of `python -m`: until that is imported there is
# nothing to clear away on Ctrl-C.
_INTERRUPTED = b"error: interrupted\nnext:  run the same command again\n"
if sys.argv[:1] == ["-m"]:
    signal.signal(
        signal.SIGINT, lambda number, frame: os.write(2, _INTERRUPTED) and os._exit(130)
    )
