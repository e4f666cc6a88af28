# SPDX-License-Identifier: Apache-2.0
"""How a command of this project is run: errors in two lines, exit statuses for scripts, signals that end it in order."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import click

from patchset.base import console, files
from patchset.base.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    MissingToolError,
    NoSpaceError,
    PatchsetError,
    UnavailableError,
)

_AGAIN = "run the same command again: it clears away what is half done, and goes on from what is complete"
_FROM_THE_START = "run the same command again, from the start"
#: Of a lane that could not judge; with it 1 says that something was judged wrong.
_NOT_JUDGED = 3


def run(command: click.Command, arguments: list[str] | None = None) -> None:
    """Run a command with the command line's arguments, or these.

    Errors are shown without a traceback, unless they are bugs. SIGTERM and SIGHUP end it as Ctrl-C does, so that what it
    started and what it has half done is cleared away.
    """
    with _ending(EXIT_FAILED, _AGAIN, ()):
        command.main(args=arguments, standalone_mode=False)


def run_lane(main: Callable[[], int], *errors: type[Exception], again: str = _FROM_THE_START) -> NoReturn:
    """Run a lane of tests, which returns its exit status, in the same way; ``errors`` are its own.

    ``again`` is what to do next after Ctrl-C.
    What keeps it from judging is never 1: that says that something was judged wrong.
    """
    with _ending(_NOT_JUDGED, again, errors):
        sys.exit(main())


@contextlib.contextmanager
def _ending(failed: int, again: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, _as_interrupt)
    try:
        yield
    except PatchsetError as error:
        _fail(error, failed)
    except errors as error:
        _fail(PatchsetError(str(error)), failed)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail(PatchsetError("interrupted", again), EXIT_INTERRUPTED)
    except ConnectionError as error:
        _fail(UnavailableError(f"the network failed: {error}", "run the same command again"), failed)
    except ModuleNotFoundError as error:
        message = f"the Python package {error.name} is not installed here"
        _fail(
            MissingToolError(message, "run it by its session, which installs it: nox -l names them"), failed
        )
    except OSError as error:
        full = NoSpaceError(str(error), "free some space on that disk, then run the same command again")
        _fail(full if error.errno in files.NO_SPACE else PatchsetError(str(error)), failed)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _fail(error: PatchsetError, failed: int) -> NoReturn:
    console.show_error(error)
    sys.exit(failed if error.exit_code == EXIT_FAILED else error.exit_code)
