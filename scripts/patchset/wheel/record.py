# SPDX-License-Identifier: Apache-2.0
"""RECORD, the list of a wheel's files with their hashes (PEP 376, PEP 427)."""

from __future__ import annotations

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
    """The line of a file with this content."""
    return Line(name, encode(hashlib.sha256(content).digest()), str(len(content)))


def encode(digest: bytes) -> str:
    """A sha256 as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def parse(content: bytes) -> list[Line]:
    """The lines of a RECORD."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"))))
    except (UnicodeDecodeError, csv.Error) as error:
        raise WheelError(f"RECORD cannot be read: {error}") from error
    for row in rows:
        if len(row) != 3:
            raise WheelError(
                f"RECORD has a line of {len(row)} fields: {','.join(row)[:80]!r}"
            )
    return [Line(*row) for row in rows]


def render(lines: Iterable[Line]) -> bytes:
    """A RECORD of these lines."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().encode("utf-8")
