# SPDX-License-Identifier: Apache-2.0
"""RECORD, the list of a wheel's files with their hashes (PEP 376, PEP 427)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from dataclasses import dataclass

from patchset.errors import PatchsetError


@dataclass(frozen=True)
class Row:
    """One file: ``digest`` as RECORD writes it (``sha256=...``, empty for RECORD itself), ``size`` in bytes."""

    path: str
    digest: str
    size: str


def row(path: str, content: bytes) -> Row:
    """The row of a file with this content."""
    return Row(path, encode(hashlib.sha256(content).digest()), str(len(content)))


def encode(digest: bytes) -> str:
    """A sha256 as RECORD writes it: base64 for URLs, without padding."""
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def parse(content: bytes) -> dict[str, Row]:
    """The rows of a RECORD by path.

    Raises:
        PatchsetError: it is no such list, or names a file twice.
    """
    rows: dict[str, Row] = {}
    try:
        for fields in csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True):
            path, digest, size = fields
            if path in rows:
                raise PatchsetError(f"RECORD names {path} twice")
            rows[path] = Row(path, digest, size)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise PatchsetError(f"RECORD cannot be read: {error}") from error
    return rows


def text(rows: list[Row]) -> bytes:
    """RECORD as a file, rows in the order given."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows((row.path, row.digest, row.size) for row in rows)
    return out.getvalue().encode()
