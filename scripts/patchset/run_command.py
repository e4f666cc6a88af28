# SPDX-License-Identifier: Apache-2.0
"""Run a command: errors in two lines, exit statuses for scripts, orderly ends."""

import contextlib
import io
import signal
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import click

from patchset import console, files
from patchset.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    MissingToolError,
    PatchsetError,
    UnavailableError,
)


def run(command: click.Command, arguments: list[str] | None = None) -> None:
    """Run a command with the command line's arguments, or these.

    Errors are shown without a traceback, unless they are bugs. SIGTERM and SIGHUP end
    it as Ctrl-C does, so that what it started and what it has half done is cleared
    away.
    """
    again = "run the same command again: it clears away what is half done"
    with _ending(EXIT_FAILED, again):
        command.main(args=arguments, standalone_mode=False)


def run_lane(
    main: Callable[[], int],
    *,
    again: str = "run the same command again, from the start",
) -> NoReturn:
    """Run a lane of tests in the same way; ``main`` returns its exit status.

    ``again`` is what to do next after Ctrl-C. When something keeps it from judging, the
    status is 3, never 1, which says: judged wrong.
    """
    with _ending(3, again):
        sys.exit(main())


@contextlib.contextmanager
def _ending(failed: int, again: str) -> Iterator[None]:
    signs = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signs.append(signal.SIGHUP)
    for sign in signs:
        signal.signal(sign, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # paths may have what it cannot say
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
        return
    except PatchsetError as error:
        told = error
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        told = PatchsetError("interrupted", again)
        told.exit_code = EXIT_INTERRUPTED
    except BrokenPipeError:
        told = PatchsetError(
            "what this command wrote to has ended", "run it again without the pipe"
        )
    except ConnectionError as error:
        told = UnavailableError(
            f"the network failed: {error}", "run the same command again"
        )
    except ModuleNotFoundError as error:
        message = f"the Python package {error.name} is not installed here"
        told = MissingToolError(
            message, "run it by its session, which installs it: nox -l names them"
        )
    except OSError as error:
        told = PatchsetError(
            f"{error.strerror or error}: {error.filename or 'no file was named'}",
            "look at that file's folder, its rights and limits (ulimit -a), then run "
            "the same command again",
        )
        if error.errno in files.NO_SPACE:
            told = files.full_disk(error.filename or "a file")
    console.show_error(told)
    sys.exit(failed if told.exit_code == EXIT_FAILED else told.exit_code)
