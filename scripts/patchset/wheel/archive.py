# SPDX-License-Identifier: Apache-2.0
"""Zip archives: read from outside with bounds, and written so that the bytes depend on the content alone.

The writer copies members as they are compressed and stores what is new without compression: what comes out
does not depend on the zlib of the machine, and 336 MB take about as long as copying them. Format:
PKWARE APPNOTE 6.3.10 (4.3 file format, 4.4.4 flags, 4.5.3 Zip64).
"""

from __future__ import annotations

import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from patchset.errors import PatchsetError

#: Bounds of an archive that is read. vLLM 0.33.0's largest wheel has 5 802 members and 837 MB.
MAX_MEMBERS = 100_000
MAX_BYTES = 16 << 30

_CHUNK = 1 << 20
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_LOCATOR = struct.Struct("<4sLQL")

_UTF8 = 0x800
_UNIX = 3
_PLAIN_VERSION, _ZIP64_VERSION = 20, 45
_FULL32 = 0xFFFFFFFF
_FULL16 = 0xFFFF


class ArchiveError(PatchsetError):
    """An archive is damaged, too large, or not what a wheel may be."""


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose member names are plain, relative, and each there once.

    Raises:
        ArchiveError: it is no whole zip archive, is too large, or holds a member that no wheel may hold.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive.infolist())
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError) as error:
        raise ArchiveError(
            f"{path.name} is no whole zip archive: {error}", "it was cut or changed: fetch or build it again"
        ) from error
    except FileNotFoundError as error:
        raise ArchiveError(f"{path} does not exist") from error


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_BYTES:
        raise ArchiveError(f"{path.name} is larger than {MAX_MEMBERS} members or {MAX_BYTES} bytes")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        parts = name.removesuffix("/").split("/")
        # zipfile cuts names at a NUL; what was cut off must not hide anything.
        if member.orig_filename != name or "\\" in name or any(part in ("", ".", "..") for part in parts):
            raise ArchiveError(f"{path.name}: the member {member.orig_filename!r} leads outside the wheel")
        if name in seen:
            raise ArchiveError(f"{path.name}: the member {name} stands there twice")
        seen.add(name)
        if member.is_dir():
            raise ArchiveError(f"{path.name}: {name} is a folder entry, which no wheel needs")
        if member.flag_bits & 0x1:
            raise ArchiveError(f"{path.name}: {name} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArchiveError(f"{path.name}: {name} is compressed in a way that wheels do not use")


def raw_pieces(archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """A member's bytes as they are compressed; ``file`` is the archive, open on its own.

    Raises:
        ArchiveError: the member's own header says another name, or the archive ends early.
    """
    file.seek(member.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) != _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise ArchiveError(f"{archive.filename}: {member.filename} has no header where the directory says")
    fields = _LOCAL.unpack(header)
    encoding = "utf-8" if fields[2] & _UTF8 else "cp437"
    if file.read(fields[9]).decode(encoding, "replace") != member.orig_filename:
        raise ArchiveError(f"{archive.filename}: {member.filename} has another name in its own header")
    file.seek(fields[10], 1)
    left = member.compress_size
    while left:
        piece = file.read(min(left, _CHUNK))
        if not piece:
            raise ArchiveError(f"{archive.filename} ends within {member.filename}")
        left -= len(piece)
        yield piece


class Writer:
    """Writes a zip archive front to back.

    ``full32`` is where 32 bit fields end and Zip64 begins; tests make it small.
    """

    def __init__(self, file: BinaryIO, epoch: int, *, full32: int = _FULL32) -> None:
        self._file = file
        self._full32 = full32
        self._date, self._time = dos_time(epoch)
        self._offset = 0
        self._directory: list[bytes] = []

    def store(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a member without compression, dated with the writer's epoch."""
        head = (zipfile.ZIP_STORED, self._time, self._date, zlib.crc32(content), len(content), len(content))
        self._begin(name, head, mode)
        self._put(content)

    def copy(
        self,
        archive: zipfile.ZipFile,
        file: BinaryIO,
        member: zipfile.ZipInfo,
        name: str,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        """Add a member of another archive as it is compressed there, with its own date and mode."""
        year, month, day, hour, minute, second = member.date_time
        head = (
            member.compress_type,
            hour << 11 | minute << 5 | second // 2,
            (year - 1980) << 9 | month << 5 | day,
            member.CRC,
            member.compress_size,
            member.file_size,
        )
        self._begin(name, head, plain_mode(member.external_attr >> 16))
        for piece in raw_pieces(archive, file, member):
            self._put(piece)
            if on_bytes is not None:
                on_bytes(len(piece))

    def close(self) -> None:
        """Write the directory; without it the archive cannot be read."""
        start, count = self._offset, len(self._directory)
        for entry in self._directory:
            self._put(entry)
        size = self._offset - start
        if start > self._full32 or size > self._full32 or count > _FULL16:
            end = self._offset
            versions = (_UNIX << 8 | _ZIP64_VERSION, _ZIP64_VERSION)
            self._put(
                _END64.pack(b"PK\x06\x06", _END64.size - 12, *versions, 0, 0, count, count, size, start)
            )
            self._put(_END64_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
            start, size, count = _FULL32, _FULL32, _FULL16
        self._put(_END.pack(b"PK\x05\x06", 0, 0, count, count, size, start, 0))

    def _begin(self, name: str, head: tuple[int, int, int, int, int, int], mode: int) -> None:
        method, clock, date, crc, packed, plain = head
        raw = name.encode()
        flags = 0 if name.isascii() else _UTF8
        offset = self._offset
        sizes64 = max(packed, plain) > self._full32
        local_extra = struct.pack("<2H2Q", 1, 16, plain, packed) if sizes64 else b""
        sizes = (_FULL32, _FULL32) if sizes64 else (packed, plain)
        version = _ZIP64_VERSION if sizes64 else _PLAIN_VERSION
        self._put(
            _LOCAL.pack(
                b"PK\x03\x04", version, flags, method, clock, date, crc, *sizes, len(raw), len(local_extra)
            )
            + raw
            + local_extra
        )
        far = offset > self._full32
        wide = ([plain, packed] if sizes64 else []) + ([offset] if far else [])
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version = _ZIP64_VERSION if wide else _PLAIN_VERSION
        entry = _CENTRAL.pack(
            b"PK\x01\x02", _UNIX << 8 | version, version, flags, method, clock, date, crc, *sizes,
            len(raw), len(extra), 0, 0, 0, (0o100000 | mode) << 16, _FULL32 if far else offset,
        )  # fmt: skip
        self._directory.append(entry + raw + extra)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)


def plain_mode(mode: int) -> int:
    """The permissions that a member gets: 0755 when its owner may run it, else 0644."""
    return 0o755 if mode & 0o100 else 0o644


def dos_time(epoch: int) -> tuple[int, int]:
    """Date and time fields for seconds since 1970, in UTC, to two seconds (APPNOTE 4.4.6)."""
    moment = time.gmtime(max(epoch, 315532800))  # the format begins with 1980
    return (
        (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday,
        moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2,
    )
