# SPDX-License-Identifier: Apache-2.0
"""Source archives, unpacked with limits and only below the target folder."""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from patchset import console
from patchset.errors import PatchsetError

#: Bounds of a source archive. vLLM 0.33.0's has 5 900 members and 150 MB.
MAX_MEMBERS = 100_000
MAX_BYTES = 2 << 30
_ODD = (EOFError, OSError, ValueError, ArithmeticError, LookupError)
#: The last time that a zip archive can name, 2107; tar archives name any, and "nan".
LAST_TIME = 4354819198


@contextlib.contextmanager
def opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a source archive; errors in it name the archive."""
    if not archive.is_file():  # a fifo would be waited for
        raise PatchsetError(f"{archive} is no regular file", "delete it")
    try:
        with tarfile.open(archive, "r:*") as tar:
            yield tar
    # tarfile lets the errors of int() and of the decompressors through.
    except (tarfile.TarError, zlib.error, lzma.LZMAError, *_ODD) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise PatchsetError(
            f"{archive.name} cannot be unpacked: {error}",
            "delete it to have it fetched again; if it has the pinned sha256, look into it",
        ) from error


def sdist(archive: Path, folder: Path, *, only: re.Pattern[str] | None = None) -> None:
    """Unpack a source archive without its top folder, or ``only`` some paths of it.

    Modes are 644 or 755 whatever the umask. Links must stay inside ``folder``. A git
    repository in the archive is left out: git would read its configuration.
    """
    top, size, left_out = "", 0, False
    with opened(archive) as tar:
        for count, member in enumerate(tar, start=1):
            size += member.size
            if count > MAX_MEMBERS or size > MAX_BYTES:
                raise tarfile.TarError(
                    f"it is larger than {MAX_MEMBERS} members or {MAX_BYTES} bytes"
                )
            parts = PurePosixPath(member.name).parts
            if not parts or member.name.startswith("/") or ".." in parts:
                raise tarfile.TarError(
                    f"{member.name!r} leads outside the target folder"
                )
            top = top or parts[0]
            if parts[0] != top:
                raise tarfile.TarError(
                    f"{member.name!r} is beside the top folder {top!r}"
                )
            if ".git" in map(str.lower, parts):
                if not left_out:
                    console.note(
                        f"  {archive.name}: left out the git repository {member.name}"
                    )
                left_out = True
            elif len(parts) > 1 and (
                only is None or only.fullmatch("/".join(parts[1:]))
            ):
                _take(tar, member, folder, folder.joinpath(*parts[1:]))


# Not by tarfile's "data" filter (PEP 706), which Debian 12's Python 3.11.2 lacks.
def _take(
    tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, place: Path
) -> None:
    """Write one member to ``place``, following no link out of ``folder``."""

    def inside(path: Path) -> Path:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise tarfile.TarError(f"{member.name!r} leads outside the target folder")
        return path

    inside(place.parent)
    for parent in reversed(place.parents):
        if not parent.is_dir():
            parent.mkdir()
            parent.chmod(0o755)
    if member.isdir():
        inside(place).mkdir(exist_ok=True)
    elif member.isreg():
        content = cast("IO[bytes]", tar.extractfile(member))  # a regular file has one
        with content, place.open("xb") as file:
            shutil.copyfileobj(content, file)
        mtime = member.mtime if 0 <= member.mtime < LAST_TIME else 0
        os.utime(place, (mtime, mtime))
    elif member.issym():
        inside(place.parent / member.linkname)
        place.symlink_to(member.linkname)
    elif member.islnk():
        target = folder.joinpath(*PurePosixPath(member.linkname).parts[1:])
        os.link(inside(target), place, follow_symlinks=False)
    else:
        raise tarfile.TarError(f"{member.name!r} is neither file, folder nor link")
    if not member.issym():
        place.chmod(0o755 if member.isdir() or member.mode & 0o100 else 0o644)
