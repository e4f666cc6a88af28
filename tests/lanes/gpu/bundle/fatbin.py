# SPDX-License-Identifier: Apache-2.0
"""Take the code for other GPUs out of a native library; its place is filled with zeros, which compress to nothing.

A library's ELF section ``.nv_fatbin`` is a row of containers: a header (magic, version, its size, the size of what
follows) and entries, each a header with kind (1 PTX, 2 machine code), architecture (90 for sm_90) and size, then the
code. The driver takes machine code of exactly the GPU's architecture, or of a lower minor revision of the same
major one, else it compiles PTX of the same or a lower one. Everything that it could not take goes: the entries that
stay move together behind their container's header, which is told the new size. Containers stay where they are, for
the library's code points at them. ``cuobjdump`` extracts the same code from a thinned library as from the whole one; a
library that is laid out otherwise than nvcc 13 does it is refused, never guessed at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = 0xBA55ED50
_PTX, _MACHINE = 1, 2
_HEADER = 16
_SECTION = b".nv_fatbin"


class LayoutError(Exception):
    """The library is not laid out as this module knows it."""


@dataclass(frozen=True)
class Entry:
    """One piece of code: ``kind`` PTX (1) or machine code (2), ``arch`` such as 90, and its bytes with its header."""

    kind: int
    arch: int
    start: int
    size: int


@dataclass(frozen=True)
class Container:
    """A header at ``start`` and the entries behind it, up to ``end``."""

    start: int
    end: int
    entries: tuple[Entry, ...]


def containers(library: bytes | bytearray) -> Iterator[Container]:
    """The containers of ``.nv_fatbin``; none when there is no such section.

    Raises:
        LayoutError: it is no 64-bit little-endian ELF file, or a container is not laid out as known.
    """
    start, size = _section(library)
    at, end = start, start + size
    while at < end:
        if end - at < _HEADER or not any(library[at : at + 8]):
            at += 8  # containers are aligned
            continue
        magic, version, header, length = struct.unpack_from("<IHHQ", library, at)
        if magic != _MAGIC or version != 1 or header != _HEADER or at + header + length > end:
            raise LayoutError(f"no container at {at:#x}")
        stop = at + header + length
        yield Container(at, stop, tuple(_entries(library, at + header, stop)))
        at = stop


def _entries(library: bytes | bytearray, at: int, end: int) -> Iterator[Entry]:
    while at < end:
        if end - at < 32:
            raise LayoutError(f"no entry at {at:#x}")
        kind, _, header, size = struct.unpack_from("<HHIQ", library, at)
        (arch,) = struct.unpack_from("<I", library, at + 28)
        if kind not in (_PTX, _MACHINE) or not 32 <= header <= 4096 or not 10 <= arch <= 999:
            raise LayoutError(f"no entry at {at:#x}")
        if at + header + size > end:
            raise LayoutError(f"an entry at {at:#x} leaves its container")
        yield Entry(kind, arch, at, header + size)
        at += header + size


def thinned(library: bytes, arch: int) -> tuple[bytes, int]:
    """The library with only what a GPU of ``arch`` (90 for sm_90) can take, and how many bytes went.

    Raises:
        LayoutError: see ``containers``.
    """
    made = bytearray(library)
    gone = 0
    for container in containers(library):
        kept = _wanted(container.entries, arch)
        at = container.start + _HEADER
        for entry in kept:
            made[at : at + entry.size] = library[entry.start : entry.start + entry.size]
            at += entry.size
        struct.pack_into("<Q", made, container.start + 8, at - container.start - _HEADER)
        made[at : container.end] = bytes(container.end - at)
        gone += container.end - at
    return bytes(made), gone


def _wanted(entries: tuple[Entry, ...], arch: int) -> list[Entry]:
    machine = [entry for entry in entries if entry.kind == _MACHINE and _runs(entry.arch, arch)]
    ptx = [entry for entry in entries if entry.kind == _PTX and entry.arch <= arch]
    # A container without anything for this GPU keeps its smallest entry, and stays a container like any other.
    return machine or ptx or sorted(entries, key=lambda entry: entry.size)[:1]


def _runs(code: int, arch: int) -> bool:
    """Machine code runs on its own major revision, from its minor one on."""
    return code // 10 == arch // 10 and code <= arch


def _section(library: bytes | bytearray) -> tuple[int, int]:
    if library[:6] != b"\x7fELF\x02\x01":
        raise LayoutError("no 64-bit little-endian ELF file")
    try:
        (table,) = struct.unpack_from("<Q", library, 0x28)
        width, count, names = struct.unpack_from("<HHH", library, 0x3A)
        (strings,) = struct.unpack_from("<Q", library, table + width * names + 0x18)
        for number in range(count):
            at = table + width * number
            (name,) = struct.unpack_from("<I", library, at)
            if library[strings + name : strings + name + len(_SECTION) + 1] == _SECTION + b"\0":
                start, size = struct.unpack_from("<QQ", library, at + 0x18)
                if start + size > len(library):
                    raise LayoutError("the section leaves the file")
                return start, size
    except struct.error as error:
        raise LayoutError(f"its section table cannot be read: {error}") from error
    return 0, 0
