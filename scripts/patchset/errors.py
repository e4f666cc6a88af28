# SPDX-License-Identifier: Apache-2.0
"""The errors that users meet, and the exit statuses that scripts can rely on.

Any function of the tool may raise one; a docstring names those alone that a caller
tells apart.
"""

import re

#: Exit statuses, with those of the errors below. 2 is click's own for a wrong command
#: line, 130 the shell's for Ctrl-C.
EXIT_FAILED = 1
EXIT_CONFLICT = 3
EXIT_INTERRUPTED = 130


def redact(text: str) -> str:
    """A text without the credentials of the addresses in it."""
    return re.sub(r"(?<=://)[^/\s@'\"]+@", "***@", text)


class PatchsetError(Exception):
    """What happened, and (``hint``) what to do next. Shown without a traceback."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = redact(message)
        self.hint = hint and redact(hint)
        super().__init__(self.message)


class UsageError(PatchsetError):
    """A name or option which does not exist, such as an unknown release."""

    exit_code = 2


class ConflictError(PatchsetError):
    """A patch does not apply to the tree as it stands."""

    exit_code = EXIT_CONFLICT


class AlreadyPresentError(PatchsetError):
    """The tree holds a patch's change already: the patch is to be dropped."""

    exit_code = 4


class MissingToolError(PatchsetError):
    """A program that this step needs is not installed."""

    exit_code = 5


class UnavailableError(PatchsetError):
    """An index, registry or remote does not have it, or does not answer."""

    exit_code = 6


class NoSpaceError(PatchsetError):
    """A disk is full, or would be."""

    exit_code = 7


class NotFoundError(UnavailableError):
    """Everybody answered, and nobody has it: asking again changes nothing."""
