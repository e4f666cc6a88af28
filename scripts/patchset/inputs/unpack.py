# SPDX-License-Identifier: Apache-2.0
"""Source archives, unpacked with limits and only below the target folder."""

import contextlib
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from patchset.errors import PatchsetError

#: Bounds of a source archive. vLLM 0.33.0's has 5 900 members and 150 MB.
MAX_MEMBERS = 100_000
MAX_BYTES = 2 << 30
MAX_DEPTH = 100
_ODD = (EOFError, OSError, ValueError, ArithmeticError, LookupError)
#: The last time that a zip archive can name, 2107; tar archives name any, and "nan".
LAST_TIME = 4354819198


@contextlib.contextmanager
def opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a source archive; errors in it name the archive."""
    if not archive.is_file():  # a fifo would be waited for
        raise PatchsetError(f"{archive} is not a regular file", "delete it")
    try:
        with tarfile.open(archive, "r:*") as tar:
            yield tar
    # tarfile lets the errors of int() and of the decompressors through.
    except (tarfile.TarError, zlib.error, lzma.LZMAError, *_ODD) as error:
        is_twice = isinstance(error, FileExistsError)
        if isinstance(error, OSError) and error.errno is not None and not is_twice:
            raise
        raise PatchsetError(
            f"{archive.name} cannot be unpacked: {error}",
            "delete it to have it fetched again; if it has the pinned sha256, look "
            "into it",
        ) from error


def sdist(archive: Path, folder: Path) -> None:
    """Unpack a source archive without its top folder.

    Modes of files are 644 or 755 whatever the umask. Links are refused: no source
    archive of vLLM has one. A git repository in it is left out: git would read its
    configuration.
    """
    top, size = "", 0
    with opened(archive) as tar:
        for count, member in enumerate(tar, start=1):
            size += member.size
            if count > MAX_MEMBERS or size > MAX_BYTES:
                raise tarfile.TarError(
                    f"it is larger than {MAX_MEMBERS} members or {MAX_BYTES} bytes"
                )
            parts = PurePosixPath(member.name).parts
            top = top or "".join(parts[:1])
            if len(parts) > MAX_DEPTH:
                raise tarfile.TarError(f"it has more than {MAX_DEPTH} nested folders")
            if ".." in parts or not parts or parts[0] != top or top == "/":
                raise tarfile.TarError(f"{member.name!r} is not below its top folder")
            place = folder.joinpath(*parts[1:])
            if member.isdir() or ".git" in map(str.lower, parts):
                continue
            if member.isreg() and (content := tar.extractfile(member)):
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, place.open("xb") as file:
                    shutil.copyfileobj(content, file)
                place.chmod(0o755 if member.mode & 0o100 else 0o644)
            else:
                raise tarfile.TarError(f"{member.name!r} is neither file nor folder")
