# SPDX-License-Identifier: Apache-2.0
"""The errors that users meet, and the exit statuses that scripts can rely on.

Any function of the tool may raise one; a docstring names those alone that a caller
tells apart.
"""

import re
from urllib.parse import unquote

#: Exit statuses: failed, or at fault; somebody must decide. 2 is click's own for a
#: wrong command line, 130 the shell's for Ctrl-C.
EXIT_FAILED = 1
EXIT_DECIDE = 3
EXIT_INTERRUPTED = 130


#: What stands before the host in addresses that were configured or named: a password
#: with a slash or a quote in it cannot be told from the text around it.
_hidden: set[str] = set()


def hide(address: str) -> None:
    """Never show the user and password of an address, wherever they appear."""
    user = address.partition("://")[2].rpartition("@")[0]
    password = user.partition(":")[2]
    # A parser that ends the host's part early shows pieces.
    parts = [user, password, unquote(password), *re.split(r"[/?#@]", password)]
    _hidden.update(part for part in parts if len(part) > 3)


def redact(text: str) -> str:
    """Return a text without the credentials and the queries of the addresses in it."""
    for part in sorted(_hidden, key=len, reverse=True):
        text = text.replace(part, "***")
    text = re.sub(r"(?<=://)[^/\n]*@", "***@", text)
    return re.sub(r"(://[^\s?]*)\?[^\s'\"<>)]+", r"\1?***", text)


def tail(text: str, size: int) -> str:
    """Return the end of what a program said, without credentials that a cut bares."""
    return redact(text.strip())[-size:]


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
    """A patch does not apply to the tree as it stands, or is in it already."""

    exit_code = EXIT_DECIDE


class MissingToolError(PatchsetError):
    """A program that this step needs is not installed."""


class UnavailableError(PatchsetError):
    """An index, registry or remote does not have it, or does not answer."""


class NoSpaceError(PatchsetError):
    """A disk is full, or would be."""


class NotFoundError(UnavailableError):
    """Everybody answered, and nobody has it: asking again changes nothing."""
