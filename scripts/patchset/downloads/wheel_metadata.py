# SPDX-License-Identifier: Apache-2.0
"""What a package index can tell about a file without sending all of it: its size, and a wheel's METADATA."""

from __future__ import annotations

import io
import re
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import IO

from unearth import Link

from patchset.base.errors import PatchsetError, UnavailableError
from patchset.base.release import Artifact
from patchset.downloads import fetch, index

#: Bound of a METADATA file in bytes; vLLM 0.33.0's has 15 000.
MAX_METADATA = 4 << 20
#: One range request asks for this many bytes at least: a wheel's directory comes in one or two of them.
_BLOCK = 512 << 10
_METADATA = re.compile(r"[^/]*\.dist-info/METADATA")


def size(source: index.Index, link: Link) -> int:
    """The size of a file in bytes, without downloading it."""
    if link.is_file:
        return link.file_path.stat().st_size
    total, _ = _ask_size(source, link)
    if not total:
        raise UnavailableError(f"the server does not say how large {link.filename} is", "use another index")
    return total


def pin(source: index.Index, project: str, link: Link) -> Artifact:
    """A file of a project with its sum and its size, without downloading it."""
    if (sha256 := index.sha256(link)) is None:
        raise PatchsetError(f"the index states no sha256 for {link.filename}", "use an index that does")
    return Artifact(project=project, file=link.filename, sha256=sha256, size=size(source, link))


def wheel_metadata(source: index.Index, link: Link, pinned: Artifact) -> Message:
    """A wheel's METADATA (core metadata): from its own address where the index has one (PEP 658), else by range
    requests into the zip, else from the downloaded file."""
    if link.is_file:
        return read_metadata(link.file_path)
    try:
        if link.dist_info_link is not None:
            response = source.client.get(link.dist_info_link.url)
            if response.status_code == 200:
                return _parse(response.content, link.filename)
        total, ranged = _ask_size(source, link)
        if ranged and total:
            ranges: io.RawIOBase = _Ranges(source, link, total)
            return _from_zip(io.BufferedReader(ranges, buffer_size=_BLOCK), link.filename)
    except (OSError, index.HTTP_ERROR) as error:
        raise UnavailableError(f"{link.filename} cannot be read: {error}", "run it again") from error
    return read_metadata(fetch.artifact(pinned))


def read_metadata(wheel: Path) -> Message:
    """The METADATA of a wheel on disk."""
    with wheel.open("rb") as file:
        return _from_zip(file, wheel.name)


def _from_zip(file: IO[bytes], wheel: str) -> Message:
    try:
        with zipfile.ZipFile(file) as archive:
            found = [name for name in archive.namelist() if _METADATA.fullmatch(name)]
            if len(found) != 1:
                raise PatchsetError(f"{wheel} has {len(found)} METADATA files, not one")
            with archive.open(found[0]) as member:
                return _parse(member.read(MAX_METADATA + 1), wheel)
    except zipfile.BadZipFile as error:
        raise PatchsetError(f"{wheel} is not a wheel: {error}") from error


def _parse(content: bytes, name: str) -> Message:
    if len(content) > MAX_METADATA:
        raise PatchsetError(f"{name}: its METADATA has more than {MAX_METADATA} bytes")
    return BytesParser().parsebytes(content, headersonly=True)


def _range(first: int, last: int) -> dict[str, str]:
    return {"Accept-Encoding": "identity", "Range": f"bytes={first}-{last}"}


def _ask_size(source: index.Index, link: Link) -> tuple[int, bool]:
    """The size that a server states for a file, 0 where it states none, and whether it answers range requests."""
    try:
        with source.client.get_stream(link.url_without_fragment, headers=_range(0, 0)) as response:
            response.raise_for_status()
            ranged, headers = response.status_code == 206, response.headers
    except (OSError, index.HTTP_ERROR) as error:
        raise UnavailableError(
            f"{link.filename} cannot be asked for its size: {error}", "run it again"
        ) from error
    said = (
        headers.get("Content-Range", "").rpartition("/")[2] if ranged else headers.get("Content-Length", "")
    )
    return int(said) if said.isdecimal() else 0, ranged


class _Ranges(io.RawIOBase):
    """A remote file, read piece by piece with range requests (RFC 9110, section 14)."""

    def __init__(self, source: index.Index, link: Link, total: int) -> None:
        self._source, self._link, self._total, self._at = source, link, total, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._total}[whence])
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        last = min(self._at + len(buffer), self._total) - 1
        if last < self._at:
            return 0
        response = self._source.client.get(self._link.url_without_fragment, headers=_range(self._at, last))
        response.raise_for_status()
        piece = response.content
        if response.status_code != 206 or len(piece) != last - self._at + 1:
            raise ConnectionError(f"a range of {self._link.filename} came back wrong")
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
