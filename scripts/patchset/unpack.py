# SPDX-License-Identifier: Apache-2.0
"""Unpacking archives from outside: bounded, and nothing leaves the target folder."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from patchset.errors import PatchsetError

#: Bounds of a source archive. vLLM 0.33.0's has 5 900 members and 150 MB.
MAX_MEMBERS = 100_000
MAX_BYTES = 2 << 30


def sdist(archive: Path, folder: Path) -> None:
    """Unpack a source archive (``NAME-VERSION/...``) into ``folder``, without that top folder.

    Modes are 644 or 755 whatever the umask; links are taken only when they stay inside.

    Raises:
        PatchsetError: it is no readable archive, has more than one top folder, is larger than the bounds, or a
            member would leave the folder.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            _extract(tar, archive, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise PatchsetError(
            f"{archive.name} cannot be unpacked: {error}", "delete it to have it fetched again"
        ) from error


def _extract(tar: tarfile.TarFile, archive: Path, folder: Path) -> None:
    top = None
    for member in _bounded(tar, archive):
        parts = PurePosixPath(member.name).parts
        if not parts or member.name.startswith("/") or ".." in parts:
            raise PatchsetError(f"{archive.name}: the member {member.name!r} leads outside the target folder")
        top = top or parts[0]
        if parts[0] != top:
            raise PatchsetError(f"{archive.name}: {member.name!r} stands beside the top folder {top!r}")
        if len(parts) == 1:
            continue
        member = member.replace(name=str(PurePosixPath(*parts[1:])), mode=_mode(member), deep=False)
        if member.islnk():
            member.linkname = str(PurePosixPath(*PurePosixPath(member.linkname).parts[1:]))
        try:
            tar.extract(member, folder, filter="data")
        except tarfile.FilterError as error:
            raise PatchsetError(f"{archive.name}: refused: {error}") from error


def _bounded(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    size = 0
    for count, member in enumerate(tar, start=1):
        size += member.size
        if count > MAX_MEMBERS or size > MAX_BYTES:
            raise PatchsetError(f"{archive.name} is larger than {MAX_MEMBERS} members or {MAX_BYTES} bytes")
        yield member


def _mode(member: tarfile.TarInfo) -> int:
    return 0o755 if member.isdir() or member.mode & 0o100 else 0o644
