# SPDX-License-Identifier: Apache-2.0
"""gzip (RFC 1952) whose bytes depend on the content alone.

What zlib makes differs between its versions, its forks and processors; a digest that is to be the same on every
machine cannot come from there. This compresses less well and slower, and layers of patched files are small.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

_WINDOW = 32768
_LONGEST = 258
#: As long a piece as must repeat before it is looked for.
_KEY = 4

#: How many extra bits the symbols of lengths (from 257 on) and of distances have, and the least that each stands for
#: (RFC 1951, 3.2.5). The longest length has a symbol of its own.
_LENGTH_BITS = [0] * 4 + [bits for bits in range(6) for _ in range(4)] + [0]
_LENGTHS = [*accumulate((1 << bits for bits in _LENGTH_BITS[:-2]), initial=3), _LONGEST]
_DISTANCE_BITS = [0] * 2 + [bits for bits in range(14) for _ in range(2)]
_DISTANCES = [*accumulate((1 << bits for bits in _DISTANCE_BITS[:-1]), initial=1)]


def gzip(content: bytes) -> bytes:
    """A gzip file without a name and a time, of no operating system in particular."""
    out = bytearray(b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff")
    held, filled = 0b011, 3  # the last block; fixed codes
    for code, bits in _codes(content):
        held |= code << filled
        filled += bits
        while filled >= 8:
            out.append(held & 0xFF)
            held >>= 8
            filled -= 8
    if filled:
        out.append(held)
    return bytes(out) + struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)


def _codes(content: bytes) -> Iterator[tuple[int, int]]:
    """The codes of one block, each with its length in bits. Repetitions are found greedily: the nearest earlier place of
    four equal bytes."""
    seen: dict[bytes, int] = {}
    at, end = 0, len(content)
    while at < end:
        key = content[at : at + _KEY]
        before = seen.get(key, -1)
        seen[key] = at
        if before >= 0 and at - before <= _WINDOW and len(key) == _KEY:
            length, most = _KEY, min(_LONGEST, end - at)
            while length < most and content[before + length] == content[at + length]:
                length += 1
            yield _length(length)
            yield _distance(at - before)
            for inner in range(at + 1, at + length):
                seen[content[inner : inner + _KEY]] = inner
            at += length
        else:
            yield _symbol(content[at])
            at += 1
    yield _symbol(256)


def _reversed(code: int, bits: int) -> int:
    """A Huffman code as it goes into the stream: its most significant bit first (RFC 1951, 3.1.1)."""
    return int(f"{code:0{bits}b}"[::-1], 2)


@cache
def _symbol(symbol: int) -> tuple[int, int]:
    """The fixed code of a literal or length (RFC 1951, 3.2.6)."""
    if symbol < 144:
        return _reversed(0x30 + symbol, 8), 8
    if symbol < 256:
        return _reversed(0x190 + symbol - 144, 9), 9
    if symbol < 280:
        return _reversed(symbol - 256, 7), 7
    return _reversed(0xC0 + symbol - 280, 8), 8


@cache
def _length(length: int) -> tuple[int, int]:
    """The code of a length's symbol, with the extra bits behind it."""
    index = bisect_right(_LENGTHS, length) - 1
    code, bits = _symbol(257 + index)
    return code | (length - _LENGTHS[index]) << bits, bits + _LENGTH_BITS[index]


@cache
def _distance(distance: int) -> tuple[int, int]:
    index = bisect_right(_DISTANCES, distance) - 1
    return _reversed(index, 5) | (distance - _DISTANCES[index]) << 5, 5 + _DISTANCE_BITS[index]
