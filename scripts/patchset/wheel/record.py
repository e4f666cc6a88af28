# SPDX-License-Identifier: Apache-2.0
"""RECORD, the list of a wheel's files with their hashes (PEP 376, PEP 427)."""

import base64
import csv
import hashlib
import io
from collections.abc import Iterable
from typing import NamedTuple

from patchset.wheel.archive import WheelError


class Line(NamedTuple):
    """A line: ``sha256=<urlsafe base64>`` and bytes, both "" for RECORD itself."""

    name: str
    hash: str
    size: str


def line(name: str, content: bytes) -> Line:
    """Return the line of a file with this content."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return Line(name, f"sha256={digest.rstrip(b'=').decode()}", str(len(content)))


def parse(content: bytes) -> list[Line]:
    """Return the lines of a RECORD."""
    try:
        rows = csv.reader(io.StringIO(content.decode("utf-8")))
        return [Line(*row) for row in rows]
    except (UnicodeDecodeError, csv.Error, TypeError) as error:
        raise WheelError(f"RECORD cannot be read: {error}") from error


def render(lines: Iterable[Line]) -> bytes:
    """Return a RECORD of these lines."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().encode("utf-8")
