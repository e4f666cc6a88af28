# SPDX-License-Identifier: Apache-2.0
"""Limits on a server's response: its size, and how slowly it may arrive."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from patchset.errors import UnavailableError

#: After ``PATIENCE`` seconds, give up on a server that averages fewer bytes a second.
SLOWEST, PATIENCE = 1000, 60.0


def steady(
    pieces: Iterable[bytes], where: str, limit: int | None = None
) -> Iterator[bytes]:
    """Yield the pieces of a response until it is too large or too slow."""
    start, count = time.monotonic(), 0
    for piece in pieces:
        count += len(piece)
        seconds = time.monotonic() - start
        if limit is not None and count > limit:
            raise UnavailableError(f"{where} sends more than {limit} bytes")
        if seconds > PATIENCE and count < SLOWEST * seconds:
            raise UnavailableError(
                f"{where} sent {count} bytes in {seconds:.0f} s; gave up"
            )
        yield piece
