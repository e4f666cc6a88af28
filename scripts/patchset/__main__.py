# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m patchset`` and of the program ``patchset``."""

# Both are there when Python starts: what must be imported takes milliseconds, in which Ctrl-C is a traceback.
import _signal  # type: ignore[import-not-found]
import os


def _leave(number: int, frame: object) -> None:
    os.write(2, b"error: interrupted\nnext:  run the same command again\n")
    os._exit(130)


def main() -> None:
    """The command line. Until its modules are imported there is nothing to clear away on an interruption."""
    _signal.signal(_signal.SIGINT, _leave)
    from patchset.cli import main as run

    run()


if __name__ == "__main__":
    main()
