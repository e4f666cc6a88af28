# SPDX-License-Identifier: Apache-2.0
"""How a command of this project is run: errors in two lines, exit statuses for scripts, signals that end it in order."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNAVAILABLE, PatchsetError


def run(command: click.Command, arguments: list[str] | None = None) -> None:
    """Run a command with the command line's arguments, or these.

    Errors are shown without a traceback, unless they are bugs. SIGTERM and SIGHUP end it as Ctrl-C does, so that what it
    started and what it has half done is cleared away.
    """
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, _as_interrupt)
    try:
        command.main(args=arguments, standalone_mode=False)
    except PatchsetError as error:
        _fail(error, error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        again = (
            "run the same command again: it clears away what is half done, and goes on from what is complete"
        )
        _fail(PatchsetError("interrupted", again), EXIT_INTERRUPTED)
    except ConnectionError as error:
        _fail(PatchsetError(f"the network failed: {error}", "run the same command again"), EXIT_UNAVAILABLE)
    except OSError as error:
        _fail(PatchsetError(str(error)), EXIT_FAILED)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _fail(error: PatchsetError, status: int) -> NoReturn:
    console.show_error(error)
    sys.exit(status)
