# SPDX-License-Identifier: Apache-2.0
"""gzip (RFC 1952) whose bytes depend on the content alone.

What zlib makes differs between its versions, its forks and processors; a digest that is to be the same on every
machine cannot come from there. This compresses less well and slower, and layers of patched files are small.
"""

from __future__ import annotations

import struct
import zlib

_WINDOW = 32768
_SHORTEST, _LONGEST = 3, 258
#: As long a piece as must repeat before it is looked for.
_KEY = 4


def _reversed(code: int, bits: int) -> tuple[int, int]:
    """A Huffman code as it goes into the stream: its most significant bit first (RFC 1951, 3.1.1)."""
    return int(f"{code:0{bits}b}"[::-1], 2), bits


def _fixed(symbol: int) -> tuple[int, int]:
    """The fixed code of a literal or length (RFC 1951, 3.2.6)."""
    if symbol < 144:
        return _reversed(0x30 + symbol, 8)
    if symbol < 256:
        return _reversed(0x190 + symbol - 144, 9)
    if symbol < 280:
        return _reversed(symbol - 256, 7)
    return _reversed(0xC0 + symbol - 280, 8)


def _bases(first: int, groups: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(base, extra bits) of consecutive symbols, ``groups`` saying how many have how many extra bits."""
    found = []
    for count, extra in groups:
        for _ in range(count):
            found.append((first, extra))
            first += 1 << extra
    return found


_LENGTHS = _bases(3, [(8, 0), (4, 1), (4, 2), (4, 3), (4, 4), (4, 5)])
_LENGTHS[-1:] = [(227, 5), (258, 0)]
_DISTANCES = _bases(1, [(4, 0)] + [(2, extra) for extra in range(1, 14)])


def _length_codes() -> dict[int, tuple[int, int]]:
    """The bits of each length: its symbol's code with the extra bits behind it."""
    found = {}
    for index, (base, extra) in enumerate(_LENGTHS):
        code, bits = _fixed(257 + index)
        for more in range(1 << extra):
            if base + more <= _LONGEST:
                found[base + more] = (code | more << bits, bits + extra)
    return found


_LITERAL = [_fixed(symbol) for symbol in range(257)]
_LENGTH = _length_codes()


def _distance(distance: int) -> tuple[int, int]:
    low, high = 0, len(_DISTANCES) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _DISTANCES[middle][0] <= distance:
            low = middle
        else:
            high = middle - 1
    base, extra = _DISTANCES[low]
    code, bits = _reversed(low, 5)
    return code | (distance - base) << bits, bits + extra


def deflate(content: bytes) -> bytes:
    """One block with fixed codes (RFC 1951), repetitions found greedily: the nearest earlier place of four equal bytes."""
    out = bytearray()
    held, filled = 0b011, 3  # the last block; fixed codes
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
            code, bits = _LENGTH[length]
            held |= code << filled
            filled += bits
            code, bits = _distance(at - before)
            for inner in range(at + 1, at + length):
                seen[content[inner : inner + _KEY]] = inner
            at += length
        else:
            code, bits = _LITERAL[content[at]]
            at += 1
        held |= code << filled
        filled += bits
        if filled >= 64:
            whole = filled >> 3
            out += (held & ((1 << whole * 8) - 1)).to_bytes(whole, "little")
            held >>= whole * 8
            filled &= 7
    code, bits = _LITERAL[256]
    held |= code << filled
    filled += bits
    out += held.to_bytes((filled + 7) >> 3, "little")
    return bytes(out)


def gzip(content: bytes) -> bytes:
    """A gzip file without a name and a time, of no operating system in particular."""
    body = deflate(content)
    head = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
    return head + body + struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)
