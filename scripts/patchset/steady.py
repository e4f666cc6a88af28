# SPDX-License-Identifier: Apache-2.0
"""Bounds of what a server sends: so many bytes, and no slower than anybody would wait for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from patchset.errors import UnavailableError

#: A server that has sent fewer bytes a second than ``SLOWEST`` after ``PATIENCE`` seconds is given up.
SLOWEST, PATIENCE = 1000, 60.0


def steady(pieces: Iterable[bytes], where: str, limit: int | None = None) -> Iterator[bytes]:
    """Pass on what comes."""
    start, count = time.monotonic(), 0
    for piece in pieces:
        count += len(piece)
        seconds = time.monotonic() - start
        if limit is not None and count > limit:
            raise UnavailableError(f"{where} sends more than {limit} bytes")
        if seconds > PATIENCE and count < SLOWEST * seconds:
            raise UnavailableError(f"{where} has sent {count} bytes in {seconds:.0f} s, and is given up")
        yield piece
