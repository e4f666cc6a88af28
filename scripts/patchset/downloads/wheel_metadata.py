# SPDX-License-Identifier: Apache-2.0
"""What a package index can tell about a file without sending all of it: its size, and a wheel's METADATA."""

from __future__ import annotations

import contextlib
import re
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import IO

from unearth import Link

from patchset import files, paths
from patchset.downloads import fetch, index
from patchset.errors import PatchsetError, UnavailableError
from patchset.release import Artifact
from patchset.steady import steady

#: Bound of a METADATA file in bytes; vLLM 0.33.0's has 15 000.
MAX_METADATA = 4 << 20
#: The end of a wheel that is asked for: its directory, and in front of that, where packers put it, its METADATA.
TAIL = 8 << 20
_METADATA = re.compile(r"[^/]*\.dist-info/METADATA")


def size(source: index.Index, link: Link) -> int:
    """The size of a file in bytes, without downloading it."""
    if link.is_file:
        return link.file_path.stat().st_size
    try:
        with source.client.get_stream(link.url_without_fragment, headers=_range(0, 0)) as response:
            response.raise_for_status()
            headers = response.headers
    except (OSError, index.HTTP_ERROR) as error:
        raise UnavailableError(
            f"{link.filename} cannot be asked for its size: {error}", "run it again"
        ) from error
    said = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
    if not said.isdecimal():
        raise UnavailableError(f"the server does not say how large {link.filename} is", "use another index")
    return int(said)


def pin(source: index.Index, project: str, link: Link) -> Artifact:
    """A file of a project with its sum and its size, without downloading it."""
    if (sha256 := index.sha256(link)) is None:
        raise PatchsetError(f"the index states no sha256 for {link.filename}", "use an index that does")
    return Artifact(project=project, file=link.filename, sha256=sha256, size=size(source, link))


def wheel_metadata(source: index.Index, link: Link, pinned: Artifact) -> Message:
    """A wheel's METADATA (core metadata): from its own address where the index has one (PEP 658), else from the end of
    the wheel where the server answers range requests, else from the downloaded file."""
    if link.is_file:
        return read_metadata(link.file_path)
    first = max(0, pinned.size - TAIL)
    asked = _range(first, pinned.size - 1)
    try:
        if link.dist_info_link is not None:
            answer = source.client.get(link.dist_info_link.url)
            if answer.status_code == 200:
                return _parse(answer.content, link.filename)
        with (
            source.client.get_stream(link.url_without_fragment, headers=asked) as response,
            files.scratch(paths.build_dir()) as folder,
            (folder / "tail").open("w+b") as file,
        ):
            response.raise_for_status()
            if response.status_code == 206:
                file.seek(first)  # what is in front stays a hole
                file.writelines(steady(response.iter_raw(), link.filename, TAIL))
                with contextlib.suppress(zipfile.BadZipFile):  # METADATA is in the hole
                    return _from_zip(file, link.filename)
    except (OSError, index.HTTP_ERROR) as error:
        raise UnavailableError(f"{link.filename} cannot be read: {error}", "run it again") from error
    return read_metadata(fetch.artifact(pinned))


def read_metadata(wheel: Path) -> Message:
    """The METADATA of a wheel on disk."""
    try:
        with wheel.open("rb") as file:
            return _from_zip(file, wheel.name)
    except zipfile.BadZipFile as error:
        raise PatchsetError(f"{wheel.name} is not a wheel: {error}") from error


def _from_zip(file: IO[bytes], wheel: str) -> Message:
    with zipfile.ZipFile(file) as archive:
        found = [name for name in archive.namelist() if _METADATA.fullmatch(name)]
        if len(found) != 1:
            raise PatchsetError(f"{wheel} has {len(found)} METADATA files, not one")
        with archive.open(found[0]) as member:
            return _parse(member.read(MAX_METADATA + 1), wheel)


def _parse(content: bytes, wheel: str) -> Message:
    if len(content) > MAX_METADATA:
        raise PatchsetError(f"{wheel}: its METADATA has more than {MAX_METADATA} bytes")
    return BytesParser().parsebytes(content, headersonly=True)


def _range(first: int, last: int) -> dict[str, str]:
    return {"Accept-Encoding": "identity", "Range": f"bytes={first}-{last}"}
