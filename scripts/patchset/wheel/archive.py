# SPDX-License-Identifier: Apache-2.0
"""Wheel files (PEP 427), whose members are carried over without recompression."""

import copy
import lzma
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from patchset.errors import PatchsetError

#: Bounds of a wheel that is read. vLLM 0.33.0's has 5 802 members and 837 MB unpacked.
MAX_MEMBERS = 100_000
MAX_BYTES = 4 << 30

#: The exceptions of reading a damaged archive.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
)
_REGULAR = 0o100000


class WheelError(PatchsetError):
    """A file is not a wheel, or not one that can be trusted."""

    def __init__(
        self,
        message: str,
        hint: str = "name an official wheel of vLLM, or one that this tool built",
    ) -> None:
        super().__init__(message, hint)


@dataclass(frozen=True)
class Member:
    """A file to write: its ``content``, or the member of a wheel to carry over."""

    name: str
    mode: int
    content: bytes | None = None
    source: zipfile.ZipInfo | None = None


class Wheel:
    """A wheel opened for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise WheelError(
                f"{path.name} is not a readable wheel: {error}",
                "build or fetch it again",
            ) from error
        infos = self._zip.infolist()
        self.members = {info.filename: info for info in infos}
        size = sum(info.file_size for info in infos)
        if len(infos) > MAX_MEMBERS or size > MAX_BYTES:
            raise WheelError(
                f"{path.name} is larger than {MAX_MEMBERS} members or {MAX_BYTES} bytes"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._zip.close()

    @property
    def dist_info(self) -> str:
        """The name of its one ``.dist-info`` folder."""
        tops = {name.partition("/")[0] for name in self.members}
        found = [top for top in tops if top.endswith(".dist-info")]
        if len(found) != 1:
            raise WheelError(
                f"{self.path.name} has {len(found)} .dist-info folders, not one"
            )
        return found[0]

    def mode(self, name: str) -> int:
        """Return the kind of a member, and its permissions with setuid and the like."""
        return self.members[name].external_attr >> 16

    def read(self, name: str) -> bytes:
        """Return a member's content, checked against its CRC."""
        return b"".join(self.pieces(name))

    def pieces(self, member: str | zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield a member's content piece by piece."""
        try:
            with self._zip.open(member) as file:
                while piece := file.read(1 << 20):
                    yield piece
        except (KeyError, *_DAMAGE) as error:
            name = member if isinstance(member, str) else member.filename
            raise WheelError(
                f"{self.path.name}: {name} cannot be read: {error}"
            ) from error

    def raw(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Return a member's compressed bytes: read as a stored one of unknown CRC."""
        stored = copy.copy(info)
        stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
        del stored.CRC
        return self.pieces(stored)


def plain_mode(mode: int) -> int:
    """Return the permissions that a file gets: 0755 when its owner may run it, else
    0644.
    """
    return 0o755 if mode & 0o100 else 0o644


def write(path: Path, members: list[Member], source: Wheel | None, epoch: int) -> None:
    """Write a wheel whose bytes depend on nothing but the arguments.

    Members with ``content`` are stored uncompressed, since compressors differ between
    versions; the others keep their compressed bytes of ``source``, where there is one.
    All carry one date, ``epoch`` in seconds since 1970.
    """
    # The first and the last moment that a zip archive can name.
    date = time.gmtime(min(max(epoch, 315532800), 4354819198))[:6]
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for member in members:
            info = zipfile.ZipInfo(member.name, date)
            info.create_system = 3
            info.external_attr = (_REGULAR | plain_mode(member.mode)) << 16
            if member.source is None or source is None:
                archive.writestr(info, member.content or b"", zipfile.ZIP_STORED)
            else:
                _carry_over(archive, info, member.source, source)


def _carry_over(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, old: zipfile.ZipInfo, source: Wheel
) -> None:
    """Append a member as it is, and keep zipfile's bookkeeping right."""
    file = archive.fp
    assert file is not None  # noqa: S101 - the archive is open
    file.seek(archive.start_dir)
    info.compress_type, info.CRC = old.compress_type, old.CRC
    info.compress_size, info.file_size = old.compress_size, old.file_size
    info.header_offset = file.tell()
    file.write(info.FileHeader())
    for piece in source.raw(old):
        file.write(piece)
    archive.start_dir = file.tell()
    archive.filelist.append(info)
    archive.NameToInfo[info.filename] = info
    archive._didModify = True  # type: ignore[attr-defined]
